-- Slurm's cli_filter for live decisions: `sbatch --deadline=2026-12-01T08:00` becomes a comment, and
-- every job of the partition is submitted held, so that none starts between two polls.
-- The word `qops` at the end of its comment is the mark of such a job: `qops-batsim live` answers it,
-- and `live release-all` frees it. A job that its user holds (sbatch -H) gets `qops=held-by-user`,
-- and waits until its user releases it.
-- slurm.conf: CliFilterPlugins=cli_filter/lua; this file is in the folder of slurm.conf.
-- Users can go around it: what is not held is held by `qops-batsim live` with its next poll.

local partitions = { main = true }

-- Parts of a heterogeneous job begin with the options of the first one.
local held = false

local function words(text)
  return text or ""
end

-- A job may name several partitions, of which one starts it; without any it goes to the default one.
local function is_ours(named)
  for name in string.gmatch(named, "[^,]+") do
    if partitions[name] then
      return true
    end
  end
  return named == ""
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
  if not is_ours(words(options["partition"])) then
    return slurm.SUCCESS
  end
  local asked = words(options["deadline"])
  local comment = words(options["comment"])
  if comment ~= "" then
    comment = comment .. " "
  end
  if asked ~= "" and asked ~= "N/A" and asked ~= "Unknown" then
    comment = comment .. "deadline=" .. asked .. " "
    -- Slurm would cancel the job by its own rule.
    options["deadline"] = ""
  end
  if pack_offset == 0 then
    held = options["hold"] == "set"
  end
  -- Whatever a user writes before, the last word counts.
  if held then
    comment = comment .. "qops=held-by-user"
  else
    comment = comment .. "qops"
  end
  options["comment"] = comment
  options["hold"] = "yes"
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end
