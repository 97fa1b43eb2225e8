// Calls `admit` of one ClusterObject at a steady rate, whether or not earlier calls have ended, and releases each
// booking with a later call, as a Worker does. Answers with the percentiles of the time of a call.
const SHARED_PREFIXES = 200
const EVENTS_PER_CALL = 8

export default {
  async fetch(request, env) {
    const { rate, ms } = await request.json()
    const { pool, admission, outcome, blocks } = JSON.parse(env.LOAD)
    const object = env.CLUSTER.getByName(crypto.randomUUID())
    await object.configure(1, pool)
    const took = []
    const calls = []
    const events = []
    let refused = 0
    const admit = async () => {
      const at = Date.now()
      const id = crypto.randomUUID()
      const answer = await object.admit(
        { ...admission, id, blocks: blocksOf(blocks) },
        events.splice(0, EVENTS_PER_CALL),
      )
      took.push(Date.now() - at)
      if ('refusal' in answer) refused++
      else events.push(['first_token', `${id}#0`, {}], ['release', `${id}#0`, outcome])
    }
    const from = Date.now()
    for (let sent = 0; Date.now() - from < ms; await scheduler.wait(1)) {
      const due = Math.floor(((Date.now() - from) * rate) / 1000)
      for (; sent < due; sent++) calls.push(admit())
    }
    await Promise.all(calls)
    took.sort((a, b) => a - b)
    const at = (share) => took[Math.min(took.length - 1, Math.floor(took.length * share))]
    return Response.json({ calls: took.length, refused, p50_ms: at(0.5), p99_ms: at(0.99), took_ms: Date.now() - from })
  },
}

/** Half of a prompt is shared with others. */
function blocksOf(blocks) {
  const family = Math.floor(Math.random() * SHARED_PREFIXES)
  return Uint32Array.from({ length: blocks * 2 }, (_, at) =>
    at < blocks ? family * 1000 + at : Math.random() * 2 ** 32,
  )
}
