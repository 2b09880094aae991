# Too many ranks for any machine, as threads and as processes, are rejected before the first one starts.
for engine in threads shm; do
    timeout 200 reshard bench --engine $engine 'u8[9000000/x] on x=9000000' 'u8[9000000/x] on x=9000000' 2>&1 |
        sed 's/limit is .*/limit is LIMIT/'
    timeout 200 reshard apply --engine $engine 'u8[9000000/x] on x=9000000' 'u8[9000000/x] on x=9000000' < /dev/null 2>&1 |
        sed 's/limit is .*/limit is LIMIT/'
done
