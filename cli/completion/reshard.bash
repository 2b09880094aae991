# Completion of reshard.  Made by tools/completion.py from what the command says of itself: do not edit.
_reshard() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options= values= files= programs=
    if [ "$word" = = ]; then word=; elif [ "$before" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ] || [ "${COMP_WORDS[1]} $COMP_CWORD" = "help 2" ]; then
        COMPREPLY=($(compgen -W 'explain apply bench simulate convert inspect verify run doctor help version' -- "$word"))
        return
    fi
    case "${COMP_WORDS[1]} $before" in
    'explain --html') values='' files=yes ;;
    'explain --ranks-per-node') values='' files=no ;;
    'explain --svg') values='' files=yes ;;
    'apply --ceiling') values='' files=no ;;
    'apply --engine') values='local threads shm mpi' files=no ;;
    'apply --in') values='' files=yes ;;
    'apply --out') values='' files=yes ;;
    'bench --engine') values='threads shm mpi' files=no ;;
    'bench --repeat') values='' files=no ;;
    'simulate --core') values='' files=no ;;
    'simulate --latency') values='' files=no ;;
    'simulate --machine') values='' files=yes ;;
    'simulate --mem') values='' files=no ;;
    'simulate --nic') values='' files=no ;;
    'simulate --ranks-per-node') values='' files=no ;;
    'convert --exclude') values='' files=no ;;
    'convert --format') values='' files=no ;;
    'convert --from') values='' files=yes ;;
    'convert --include') values='' files=no ;;
    'convert --max-shard-size') values='' files=no ;;
    'convert --max-shard-tensors') values='' files=no ;;
    'convert --mem') values='' files=no ;;
    'convert --threads') values='' files=no ;;
    'convert --to') values='whole' files=yes ;;
    'inspect --from') values='' files=yes ;;
    'verify --from-a') values='' files=yes ;;
    'verify --from-b') values='' files=yes ;;
    'verify --mem') values='' files=no ;;
    'run --ranks' | 'run -n') values='' files=no ;;
    esac
    if [ -z "$files" ]; then
        case ${COMP_WORDS[1]} in
        explain) options='--by-node --html --json --matrix --ranks-per-node --relabel --svg --help --usage' ;;
        apply) options='--ceiling --engine --in --out --help --usage' ;;
        bench) options='--engine --json --repeat --help --usage' ;;
        simulate) options='--by-node --calibrate --core --json --latency --machine --mem --nic --ranks-per-node --help --usage' ;;
        convert) options='--dedup --drop --dry-run --exclude --force --format --from --include --json --max-shard-size --max-shard-tensors --mem --no-digest --resume --reverse --threads --to --verify --help --usage' files=yes ;;
        inspect) options='--from --json --help --usage' files=yes ;;
        verify) options='--from-a --from-b --json --mem --help --usage' files=yes ;;
        run) options='--ranks --help --usage' programs=yes ;;
        doctor) options='--json --help --usage' ;;
        esac
        case $word in -*) files= programs= ;; *) options= ;; esac
    fi
    [ "$files" != yes ] || { compopt -o filenames 2> /dev/null; COMPREPLY=($(compgen -f -- "$word")); }
    [ "$programs" != yes ] || COMPREPLY=($(compgen -c -- "$word"))
    COMPREPLY+=($(compgen -W "$options $values" -- "$word"))
}
complete -F _reshard reshard
