"""Charts that ship: `pool`, and examples to read, to run and to start from.

`checkout` and `fulfilment` have effects of every sort, `backlog` is a pool at work, `rendering`
follows a long job elsewhere, and `approval` has several gates open at once.
"""
