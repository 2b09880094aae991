# All common ways to ask for help or for the version.
for word in -h '-?' help --help; do reshard $word | head -n 1; done
for words in 'help apply' 'apply -h' 'apply --help'; do reshard $words | head -n 1; done
reshard help aply; echo "exit $?"
for word in -V version --version; do reshard $word | sed 's/[0-9.]*$/N/'; done
reshard help help | head -n 1
