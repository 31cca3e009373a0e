-- Slurm's cli_filter for live decisions: `sbatch --deadline=2026-12-01T08:00` becomes a comment, and
-- every job of the partition is submitted held, so that none starts between two polls.
-- slurm.conf: CliFilterPlugins=cli_filter/lua; this file stands beside slurm.conf.
-- Users can go around it: what is not held is held by `qops-batsim live` with its next poll.

local partitions = { main = true }

local function words(text)
  return text or ""
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
  local partition = words(options["partition"])
  if partition ~= "" and not partitions[partition] then
    return slurm.SUCCESS
  end
  local asked = words(options["deadline"])
  local comment = words(options["comment"])
  if asked ~= "" and asked ~= "N/A" and asked ~= "Unknown" and not string.find(comment, "deadline=", 1, true) then
    if comment ~= "" then
      comment = comment .. " "
    end
    comment = comment .. "deadline=" .. asked
    -- Slurm would cancel the job by its own rule.
    options["deadline"] = ""
  elseif not string.find(comment, "qops", 1, true) and
         not string.find(comment, "deadline=", 1, true) then
    comment = (comment == "" and "" or comment .. " ") .. "qops"
  end
  options["comment"] = comment
  options["hold"] = "yes"
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end
