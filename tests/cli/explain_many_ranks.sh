# 65,536 ranks are planned quickly, and the picture says what it omits.
timeout 200 reshard explain 'f32[65536/tp, 65536] on tp=65536' 'f32[65536, 65536/tp] on tp=65536' | grep -e showing -e messages
