"""Reading runs back, and comparing them."""
