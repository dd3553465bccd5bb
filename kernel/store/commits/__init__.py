"""The jobs that change rows, one file each; all run on the writer's thread inside its transaction."""
