# Every verb has a help text.
for verb in explain apply bench simulate convert inspect verify run doctor; do reshard $verb --help | head -n 1; done
