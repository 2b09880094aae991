# For reductions, explain prints the bytes between nodes for both orders, and the scratch.
sum="f32[4096] on x=8 sum(x)" rows="f32[4096/x] on x=8"
reshard explain --json --ranks-per-node 4 "$sum" "$rows" | grep -E 'between_nodes_|scratch'
reshard explain --json --by-node --ranks-per-node 4 "$sum" "$rows" | grep -E 'between_nodes|scratch'
reshard explain --ranks-per-node 4 "$sum" "$rows" | grep combined
reshard explain --by-node --ranks-per-node 4 "$sum" "$rows" | grep -E 'combined|between nodes'
reshard explain --by-node --ranks-per-node 4 "f32[4096/x] on x=8" "f32[4096] on x=8" | grep -c combined || true # nothing is combined
