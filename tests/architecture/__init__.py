"""The shape of the code: rules that hold for every file, read from the source itself."""
