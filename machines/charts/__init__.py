"""Charts that ship: the examples `checkout` and `fulfilment`, to read, to run and to start from."""
