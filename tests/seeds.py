"""Seeds: where random tests start.  RESHARD_SEED sets it; otherwise it is the same every time, as in seed.h."""
import os


def seed_of_tests():
    return int(os.environ.get("RESHARD_SEED") or 20261116)
