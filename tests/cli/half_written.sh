# An output file that cannot be written completely is not created, and an existing file is unchanged.
trap '' XFSZ
head -c 100000 /dev/zero > in
echo before > out
echo before > page.html
ln -s page.html link.html
full() { (ulimit -f 1; reshard "$@"); echo "exit $?"; }
full apply 'u8[100000]' 'u8[100000]' --in in --out out
full apply 'u8[100000]' 'u8[100000]' --in in --out out --engine shm
full apply 'u8[100000]' 'u8[100000/x] on x=2' --in in --out part%d
full explain 'u8[4]' 'u8[4]' --html page.html
full explain 'u8[4]' 'u8[4]' --html other.html
cat out page.html
ls
# If the output is a link, its target is replaced; the file mode is kept.
chmod 640 page.html
reshard explain 'u8[4]' 'u8[4]' --html link.html > /dev/null
stat -c '%A %n' page.html
head -c 15 link.html; echo
[ -L link.html ] && echo a link
reshard apply 'u8[100000]' 'u8[100000]' --in in --out /dev/null && [ -c /dev/null ] && echo a device
# A dangling link stays a link, and its target is created.  An open descriptor is written at its current position.
printf 1234 > in
ln -s later dangling
mkdir sub && ln -s ../latest sub/dangling
for out in dangling sub/dangling /dev/stdout /dev/fd/1; do
    reshard apply 'u8[4]' 'u8[4]' --in in --out $out && echo " to $out"
done
[ -L dangling ] && [ -L sub/dangling ] && cat later latest && echo " behind links"
# Input and output may be the same file.  A name may be as long as the system allows.  A partial file that is a link is not
# followed.
reshard apply 'u8[4]' 'u8[4]' --in in --out in && cat in && echo " in place"
long=$(head -c 250 /dev/zero | tr '\0' n)
reshard apply 'u8[4]' 'u8[4]' --in in --out $long && cat $long && echo " in a long name"
ln -s in trap.reshard-partial
reshard apply 'u8[4]' 'u8[4]' --in in --out trap
mkfifo pipe
cat pipe > got &
reshard apply 'u8[4]' 'u8[4]' --in in --out pipe
wait
[ -p pipe ] && cat got && echo " through a pipe"
