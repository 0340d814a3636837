"""What a stored run says of itself, read strictly and without the code of its chart."""
