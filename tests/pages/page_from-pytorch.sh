# A model and the rules of from-pytorch.md.
[ -d model ] || python3 "$ROOT/tests/pages/model.py" model
[ -f four.rules ] || sed -n '/\$ cat four.rules/,/\$ reshard/p' "$ROOT/docs/from-pytorch.md" | sed '1d;$d;s/^    //' > four.rules
