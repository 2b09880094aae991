"""Seeds: the seed of random tests.  RESHARD_SEED sets it; otherwise it is fixed, as in seed.h."""
import os


def seed_of_tests():
    return int(os.environ.get("RESHARD_SEED") or 20261116)
