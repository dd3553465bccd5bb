"""The core proposals, one file each. A proposal decides; it changes nothing."""
