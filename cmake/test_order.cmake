# Order of the tests, for `ctest -j`: the longest start first, and jobs of mpirun have the machine to themselves.

# Seconds of the tests that take longest; the others start after them.
set(long_tests
  "the command answers as recorded|16"
  "draw: pages in Chromium|12"
  "python: wheel|11"
  "node: rendezvous|10"
  "ckpt: kill|9"
  "cli: terminal|9"
  "shard: begun|9"
  "python: examples|9"
  "python: leaks|8"
  "shard: stuck|8"
  "prop: reshard_prop on nodes|8"
  "shard: kept|7"
  "wire: blame|6"
  "page: README|6"
  "nn: gpt2 in PyTorch|6"
  "comm: failure|5"
  "ckpt: hostile|5"
  "ckpt: limits|5"
  "shard: team_ends|5"
  "page: comm|5"
  "prop: totals_prop|5"
  "prop: reshard_prop|5")
foreach(entry IN LISTS long_tests)
  string(REPLACE "|" ";" entry "${entry}")
  list(GET entry 0 name)
  list(GET entry 1 seconds)
  if(TEST "${name}")
    set_tests_properties("${name}" PROPERTIES COST ${seconds})
  endif()
endforeach()

# Ranks of MPI never sleep while they wait.  Beside other tests they would slow both down, ten times and more;
# three processors are all that `make test` uses on two cores.
get_property(all_tests DIRECTORY PROPERTY TESTS)
foreach(name IN LISTS all_tests)
  get_test_property("${name}" LABELS labels)
  get_test_property("${name}" PROCESSORS processors)
  if("mpi" IN_LIST labels AND processors)
    set_tests_properties("${name}" PROPERTIES PROCESSORS 3)
  endif()
endforeach()
