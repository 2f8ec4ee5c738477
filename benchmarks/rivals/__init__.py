"""What this project is measured beside; nothing in the package depends on any of it."""
