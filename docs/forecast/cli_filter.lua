-- Slurm's cli_filter that tells who submits a job when such jobs start. It asks
-- `qops-batsim queue serve … --history …`, after the submission, and changes nothing.
-- slurm.conf: CliFilterPlugins=cli_filter/lua; this file is in the folder of slurm.conf. It needs curl.

local server = "http://127.0.0.1:8080"
-- Longest time that a user waits for the answer (seconds).
local patience = 3
-- Processors of a node; and whether all jobs have whole nodes, or only those with --exclusive.
local of_a_node = 1
local whole_nodes = false

local asked = nil

local function number(text)
  return tonumber(string.match(text or "", "^%d+")) or 0
end

-- Seconds of 30 (minutes), 30:00, 2:00:00, 1-12, 1-12:00 or 1-12:00:00.
local function seconds(text)
  local days, rest = string.match(text or "", "^(%d+)%-(.*)$")
  local parts = {}
  for each in string.gmatch(rest or text or "", "%d+") do
    table.insert(parts, tonumber(each))
  end
  if #parts == 0 then
    return nil
  end
  if days then
    return tonumber(days) * 86400 + parts[1] * 3600 + (parts[2] or 0) * 60 + (parts[3] or 0)
  end
  if #parts == 3 then
    return parts[1] * 3600 + parts[2] * 60 + parts[3]
  end
  return parts[1] * 60 + (parts[2] or 0)
end

local function words(duration)
  local minutes = math.max(math.floor(duration / 60 + 0.5), 0)
  if minutes < 60 then
    return string.format("%d min", minutes)
  end
  if minutes < 2880 then
    return string.format("%d h %d min", math.floor(minutes / 60), minutes % 60)
  end
  return string.format("%.1f days", minutes / 1440)
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
  asked = nil
  -- Without a limit it tells one of thousands of years.
  local limit = seconds(options["time"]) or 0
  if options["type"] ~= "sbatch" or pack_offset ~= 0 or limit == 0 or limit > 366 * 86400 then
    return slurm.SUCCESS
  end
  -- It tells 0 for what is not named.
  local nodes = math.max(number(options["nodes"]), 1)
  local tasks = math.max(number(options["ntasks"]), nodes * number(options["ntasks-per-node"]))
  local processors = tasks * math.max(number(options["cpus-per-task"]), 1)
  if whole_nodes or options["exclusive"] == "exclusive" then
    processors = math.max(processors, nodes * of_a_node)
  end
  local user = string.gsub(os.getenv("USER") or "", "[^%w_.-]", "")
  asked = string.format(
    "%s/starts?processors=%d&time=%d&user=%s", server, processors, limit, user
  )
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  if not asked then
    return slurm.SUCCESS
  end
  local curl = io.popen(string.format("curl -s -m %d '%s' 2>/dev/null", patience, asked))
  local answer = curl and curl:read("*a") or ""
  if curl then
    curl:close()
  end
  local now = tonumber(string.match(answer, '"now":([%d.]+)'))
  local half = tonumber(string.match(answer, '"median":([%d.]+)'))
  local most = tonumber(string.match(answer, '"late":([%d.]+)'))
  if now and half and most then
    slurm.log_info(
      "half of such jobs start within %s, nine of ten within %s", words(half - now), words(most - now)
    )
  end
  return slurm.SUCCESS
end
