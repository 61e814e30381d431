-- SHA-256 (FIPS 180-4), which the server has no function for, of a text in hexadecimal. It is
-- used when a claim closes somebody else's run, which is rare, to go on with that run's chain.
local sha256
do
  local band, bxor, bnot, ror, rsh = bit.band, bit.bxor, bit.bnot, bit.ror, bit.rshift
  function sha256(s)
    local K, start = {}, {}
    local function frac(x) return bit.tobit(math.floor((x - math.floor(x)) * 4294967296)) end
    -- The fractions of the square and cube roots of the first primes.
    local n = 2
    while #K < 64 do
      local prime = true
      for d = 2, math.floor(math.sqrt(n)) do
        if n % d == 0 then prime = false break end
      end
      if prime then
        if #start < 8 then start[#start + 1] = frac(math.sqrt(n)) end
        K[#K + 1] = frac(n ^ (1 / 3))
      end
      n = n + 1
    end
    local H = {unpack(start)}
    local bits = #s * 8
    s = s .. '\128' .. string.rep('\0', (55 - #s) % 64) .. string.rep('\0', 4) ..
      string.char(band(rsh(bits, 24), 255), band(rsh(bits, 16), 255), band(rsh(bits, 8), 255), band(bits, 255))
    local w = {}
    for chunk = 1, #s, 64 do
      for i = 0, 15 do
        local a, b, c, d = string.byte(s, chunk + i * 4, chunk + i * 4 + 3)
        w[i] = bit.tobit(a * 16777216 + b * 65536 + c * 256 + d)
      end
      for i = 16, 63 do
        local x, y = w[i - 15], w[i - 2]
        w[i] = bit.tobit(w[i - 16] + bxor(ror(x, 7), ror(x, 18), rsh(x, 3)) + w[i - 7] + bxor(ror(y, 17), ror(y, 19), rsh(y, 10)))
      end
      local a, b, c, d, e, f, g, h = unpack(H)
      for i = 0, 63 do
        local t1 = h + bxor(ror(e, 6), ror(e, 11), ror(e, 25)) + bxor(band(e, f), band(bnot(e), g)) + K[i + 1] + w[i]
        local t2 = bxor(ror(a, 2), ror(a, 13), ror(a, 22)) + bxor(band(a, b), band(a, c), band(b, c))
        h, g, f, e, d, c, b, a = g, f, e, bit.tobit(d + t1), c, b, a, bit.tobit(t1 + t2)
      end
      for i, v in ipairs({a, b, c, d, e, f, g, h}) do H[i] = bit.tobit(H[i] + v) end
    end
    local out = {}
    for i = 1, 8 do out[i] = bit.tohex(H[i]) end
    return table.concat(out)
  end
end
