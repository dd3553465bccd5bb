"""What files mean, said without a kernel."""
