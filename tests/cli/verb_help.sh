# Every verb explains itself.
for verb in explain apply bench simulate run doctor; do reshard $verb --help | head -n 1; done
