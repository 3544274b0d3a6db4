/**
 * The counters that several gateways share, in a Redis.
 *
 * Algorithm: each gateway keeps its own count of each counter and reports it under a field of its
 * own; the sum of the fields is the counter. Far from a limit a gateway counts ahead of its
 * reports, up to a grant of the store that the store counts as used; near a limit, and under small
 * ones, each request is one run of the script, which decides for all counters of the request at
 * once.
 *
 * Consistency: grants and scripts together never let more than the limit through. A report that is
 * lost, late or repeated changes nothing, because it holds the whole count and not a change. That
 * of a level is a change: one that arrives late, after it was taken for lost, counts twice, so that
 * fewer requests pass and never more.
 *
 * Failure: a store that does not answer costs one request 50 ms; from then on each gateway counts
 * by itself, or nothing is limited, as the configuration says. A store that was emptied begins an
 * epoch, and decides nothing until each gateway has had time to report.
 *
 * Known limit: a gateway that dies keeps its slots of calls under way for half a minute.
 *
 * What a gateway has counted holds its requests that are under way, also those that are refused in
 * the end. So a request that does not pass writes nothing, lest others be refused for it.
 *
 * The script decides on one request against all its counters, in one step of the store. Levels
 * (token buckets) are kept whole, and each gateway says at which it knew them last.
 *
 * KEYS: the epoch, then one a counter. ARGV: now in ms, this gateway, how long an epoch is young in
 * ms, then for each counter: kind, limit, need ('' asks nothing), slot or step in ms, counted slots
 * or what a step drains, our counts without this request, with it, and with what we may count
 * before our next report, up to how much that is granted, and the level we know. Answers the epoch,
 * which counter refused (0: none, -1: nothing is decided yet), then for each counter what others
 * have counted, or the level, the oldest slot of the others (-1: none), and whether more was
 * granted.
 */
export const limit_script = `
local now, me = tonumber(ARGV[1]), ARGV[2]
local epoch = redis.call('GET', KEYS[1])
if not epoch then
  epoch = me .. ':' .. ARGV[1]
  redis.call('SET', KEYS[1], epoch)
end
redis.call('EXPIRE', KEYS[1], 86400)
local is_warming_up = now < tonumber(string.match(epoch, ':(%d+)$') or 0) + tonumber(ARGV[3])

local function slots_of(text, gone)
  local sum, oldest = 0, -1
  for slot, count in string.gmatch(text, '(%d+):(%d+)') do
    slot = tonumber(slot)
    if slot > gone then
      sum = sum + tonumber(count)
      if oldest < 0 or slot < oldest then oldest = slot end
    end
  end
  return sum, oldest
end

local function read_slots(key, gone)
  local sum, oldest = 0, -1
  local fields = redis.call('HGETALL', key)
  for n = 1, #fields, 2 do
    if fields[n] ~= me then
      local count, first = slots_of(fields[n + 1], gone)
      if first < 0 then redis.call('HDEL', key, fields[n]) end
      sum = sum + count
      if first >= 0 and (oldest < 0 or first < oldest) then oldest = first end
    end
  end
  return sum, oldest
end

local function read_level(key, at, amount, unreported)
  local stored = redis.call('HMGET', key, 'level', 'at')
  local level = 0
  if stored[1] then
    level = math.max(0, tonumber(stored[1]) - math.max(0, at - tonumber(stored[2])) * amount)
  end
  return math.max(0, level + unreported)
end

local refused, plans, answer = is_warming_up and -1 or 0, {}, {}
for n = 2, #KEYS do
  local a = 3 + (n - 2) * 10
  local plan = {
    key = KEYS[n], kind = ARGV[a + 1], step = tonumber(ARGV[a + 4]), many = tonumber(ARGV[a + 5]),
    before = ARGV[a + 6], after = ARGV[a + 7], ahead = ARGV[a + 8], need = tonumber(ARGV[a + 3]),
  }
  local used
  if plan.kind == 'slots' then
    local gone = math.floor(now / plan.step) - plan.many
    local others, oldest = read_slots(plan.key, gone)
    used = others + slots_of(plan.before, gone)
    plan.granted = plan.ahead ~= '' and used <= tonumber(ARGV[a + 9])
    answer[#answer + 1] = tostring(others)
    answer[#answer + 1] = oldest
  else
    plan.at = now / plan.step
    if plan.kind == 'steps' then plan.at = math.floor(plan.at) end
    used = read_level(plan.key, plan.at, plan.many, tonumber(plan.before))
    if is_warming_up then used = math.max(used, tonumber(ARGV[a + 10])) end
    plan.level = used
    answer[#answer + 1] = string.format('%.6f', used)
    answer[#answer + 1] = -1
  end
  answer[#answer + 1] = 0
  if refused == 0 and plan.need and used + plan.need > tonumber(ARGV[a + 2]) then refused = n - 1 end
  plans[#plans + 1] = plan
end

for n, plan in ipairs(plans) do
  if plan.kind == 'slots' then
    local text = plan.before
    if refused == 0 then
      text = plan.granted and plan.ahead or plan.after
      if plan.granted then answer[3 * n] = 1 end
    end
    if refused ~= 0 and plan.need then
      -- Its next report says what it has counted.
    elseif text == '' then
      redis.call('HDEL', plan.key, me)
    else
      redis.call('HSET', plan.key, me, text)
      redis.call('PEXPIRE', plan.key, math.ceil(plan.step * (plan.many + 1)))
    end
  else
    local level = plan.level
    if refused == 0 then level = level + tonumber(plan.after) end
    redis.call('HSET', plan.key, 'level', string.format('%.6f', level), 'at', string.format('%.6f', plan.at))
    local drained = math.ceil(level / plan.many + 1) * plan.step
    redis.call('PEXPIRE', plan.key, math.ceil(drained))
  end
end
return { epoch, refused, unpack(answer) }
`;
