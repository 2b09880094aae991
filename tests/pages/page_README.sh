# Files for the lines of README.md: parts to move, a model and rules; and two layouts.
FROM='f32[8/x, 8] on x=4' TO='f32[8, 8/x] on x=4'
[ -f rows ] || head -c 256 /dev/zero > rows
[ -d model ] || python3 "$ROOT/tests/pages/model.py" model
[ -f four.rules ] || printf 'mesh tp=4\n*.q_proj.weight [_/tp%%128, _]\n* [...]\n' > four.rules
# elsewhere: make: .ci/run goes the way of the README on a clean clone
# elsewhere: cc prog.c: tests/install builds a program against an installed library

