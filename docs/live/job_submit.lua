-- Slurm's job_submit plugin for live decisions, run by slurmctld, so that no user can go around it:
-- what cli_filter.lua marks is held and marked also if it comes another way, and what waits for a
-- decision stays held, whatever its user changes.
-- Slurm 22.05 shows the user of a refused change "Unspecified error".
-- slurm.conf: JobSubmitPlugins=lua; this file is in the folder of slurm.conf of slurmctld.

local partitions = { main = true }
-- By number: root, and the user that `qops-batsim live` runs as.
local operators = { [0] = true }
local OWN_HOLD = "qops=held-by-user"

-- A job may name several partitions, of which one starts it; without any it goes to the default one.
local function is_ours(named)
  for name in string.gmatch(named or "", "[^,]+") do
    if partitions[name] then
      return true
    end
  end
  return (named or "") == ""
end

-- The last word counts.
local function mark_of(comment)
  return string.match(comment or "", "[^%s,;]*$")
end

local function marked(comment, mark)
  if comment == nil or comment == "" then
    return mark
  end
  return comment .. " " .. mark
end

function slurm_job_submit(job, partitions_of_user, uid)
  if not is_ours(job.partition) then
    return slurm.SUCCESS
  end
  local mark = mark_of(job.comment)
  if mark ~= "qops" and mark ~= OWN_HOLD then
    job.comment = marked(job.comment, job.priority == 0 and OWN_HOLD or "qops")
  end
  job.priority = 0
  return slurm.SUCCESS
end

function slurm_job_modify(change, job, partitions_of_user, uid)
  if operators[uid] then
    return slurm.SUCCESS
  end
  if change.partition ~= nil and is_ours(change.partition) ~= is_ours(job.partition) then
    slurm.log_user("a job does not move to or from a partition of live decisions; submit it again")
    return slurm.ERROR
  end
  if not is_ours(job.partition) then
    return slurm.SUCCESS
  end
  local mark = mark_of(job.comment)
  local waits = job.priority == 0
  if waits and change.nice ~= slurm.NO_VAL then
    slurm.log_user("the nice of a held job cannot be changed: that would release it")
    return slurm.ERROR
  end
  if waits and mark == OWN_HOLD and change.priority ~= slurm.NO_VAL and change.priority ~= 0 then
    -- Its user releases it: it is handed over.
    mark = "qops"
    change.comment = marked(change.comment or job.comment, mark)
    change.priority = 0
  elseif change.comment ~= nil and (mark == "qops" or mark == OWN_HOLD) then
    change.comment = marked(change.comment, mark)
  end
  if waits then
    change.priority = 0
  end
  return slurm.SUCCESS
end

return slurm.SUCCESS
