# Starts N processes, each with its rank; the first failure ends all, and no process is left.
reshard run -n 3 sh -c 'echo rank $RESHARD_RANK of $RESHARD_SIZE' | sort
reshard run -n 3 -- sh -c 'test $RESHARD_RANK = 1 && exit 7; sleep 1000'; echo "exit $?"
reshard run -n 2 sh -c 'test $RESHARD_RANK = 1 && kill -9 $$; sleep 1000'; echo "exit $?"
reshard run -n 1 /no/such/program; echo "exit $?"
echo 'for rank 0' | reshard run -n 2 cat
reshard run -n 0 true; echo "exit $?"
reshard run -n 2; echo "exit $?"
# The command prints once how a rank ended.
reshard run -n 4 -- nothere; echo "exit $?"
reshard run -n 1 -- false; echo "exit $?"
reshard run -n 1000000 true; echo "exit $?"
# A file that exists but cannot be executed gives the exit status of a shell.
mkdir folder
reshard run -n 2 -- ./folder; echo "exit $?"
# A program in the current directory is found only with ./ in front.
printf '#!/bin/sh\necho runs\n' > program_of_this_folder
chmod +x program_of_this_folder
reshard run -n 2 program_of_this_folder; echo "exit $?"
reshard run -n 1 ./program_of_this_folder; echo "exit $?"
