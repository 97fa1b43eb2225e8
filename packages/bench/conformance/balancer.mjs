// Passes requests on to isolates, bound as ISO0, ISO1 …, in turn.
let turn = 0

export default {
  fetch: (request, env) => env[`ISO${turn++ % Number(env.ISOLATES)}`].fetch(request),
}
