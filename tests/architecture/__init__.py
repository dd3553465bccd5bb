"""The shape of the house: rules that hold for every file, read from the source itself."""
