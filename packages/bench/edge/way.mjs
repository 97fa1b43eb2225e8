// The way to another place: half of the round trip before the request, half before the head of the response.
export default {
  async fetch(request, env) {
    const half = Number(env.WAY_MS) / 2
    if (half > 0) await scheduler.wait(half)
    const response = await (env.TO ?? globalThis).fetch(request)
    if (half > 0) await scheduler.wait(half)
    return response
  },
}
