# The error shows the argument, the column and the reason, and a caret under the column.
reshard explain 'f32[4096/tq, 11008] on tp=4' 'f32[4096, 11008]'; echo "exit $?"
reshard apply 'f32[4]' 'f33[4]'; echo "exit $?"
reshard bench 'f32[4]' ''; echo "exit $?"
