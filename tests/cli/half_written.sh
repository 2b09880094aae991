# What cannot be written to its end is not there, and what was there before stays.
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
# A link stays a link, and the file keeps its mode.
chmod 640 page.html
reshard explain 'u8[4]' 'u8[4]' --html link.html > /dev/null
stat -c '%A %n' page.html
head -c 15 link.html; echo
[ -L link.html ] && echo a link
reshard apply 'u8[100000]' 'u8[100000]' --in in --out /dev/null && [ -c /dev/null ] && echo a device
