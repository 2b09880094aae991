# Files for the lines of command.md.
[ -f in ] || printf ABCDEFGHIJKLMNOP > in
[ -x train ] || { printf '#!/bin/sh\nexit 0\n' > train; chmod +x train; }
