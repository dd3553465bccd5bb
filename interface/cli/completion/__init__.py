"""Shell completion: arguments of each command as a script for each shell, and live candidates."""
