/** Prefill and decode engines that stop at the worst moment, and requests that need no second engine. */
import { setTimeout as sleep } from 'node:timers/promises'
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { thresholdTokens } from '../fleets.ts'
import type { GatewayKind } from '../gateway.ts'
import { open, send } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { direct, endless, through } from './asks.ts'
import { moved, prompt, textOf } from './disaggregation.ts'

export function splitFaultRows(kind: GatewayKind): Row[] {
  return [
    {
      name: `${kind}-threshold`,
      says: `Prompts below the threshold go to the decode engine (${kind}); all others go to the prefill engine first.`,
      run: async (lab) => threshold(lab, kind),
    },
    {
      name: `${kind}-prefill-dies-between`,
      says: `When the prefill engine dies between the legs (${kind}), the client gets the text of a single engine.`,
      run: async (lab) => diesBetween(lab, kind),
    },
    {
      name: `${kind}-decode-dies`,
      says:
        `When the decode engine dies (${kind}), its stream ends with an error, requests get 503 at once, and are ` +
        'served again within 10 s of its first good health check.',
      run: async (lab) => decodeDies(lab, kind),
    },
  ]
}

const ask = (round: number, count: number, more: object = {}) => ({
  model: servedModel,
  prompt: prompt(round).slice(0, count),
  max_tokens: 4,
  temperature: 0,
  ignore_eos: true,
  ...more,
})

const served = (engine: RealEngine): Promise<number> => engine.metric('vllm:request_success_total')

async function threshold(lab: Lab, kind: GatewayKind): Promise<string> {
  const [prefill, decode] = [await lab.engine('prefill'), await lab.engine('decode')]
  const [before, movedBefore] = [await served(prefill), await moved(decode)]
  const sizes = [20, thresholdTokens - 1, thresholdTokens, 300]
  const seen: string[] = []
  for (const [at, size] of sizes.entries()) {
    const { status, headers } = await send(
      await through(lab, kind, ask((kind === 'node' ? 30 : 530) + at, size), { fleet: 'threshold' }),
    )
    check(status === 200, `${size} tokens: ${status}`)
    seen.push(
      `${size} tokens ${headers['x-firstlight-prefill'] === undefined ? 'whole' : 'split'} on ` +
        `${headers['x-firstlight-engine']}`,
    )
  }
  await sleep(500)
  const [prefills, tokens] = [(await served(prefill)) - before, (await moved(decode)) - movedBefore]
  const result = `${seen.join(', ')}; prefill engine served ${prefills}, transferred ${tokens} tokens`
  check(
    seen.map((one) => one.includes('split')).join() === 'false,false,true,true' &&
      prefills === 2 &&
      tokens >= 0.9 * (thresholdTokens + 300),
    result,
  )
  return result
}

async function diesBetween(lab: Lab, kind: GatewayKind): Promise<string> {
  const prefill = await lab.engine('prefill')
  const decode = await lab.engine('decode')
  await lab.gateway(kind, 'held')
  const relay = await lab.relay('prefill')
  const body = ask(kind === 'node' ? 40 : 41, 300, { max_tokens: 8 })
  const expected = textOf(
    JSON.parse((await send(direct(decode, { ...body, cache_salt: 'whole' }))).body.toString('utf8')),
  )
  const request = { ...(await through(lab, kind, body, { fleet: 'held' })), limitMs: 120_000 }
  // The prefill's response is delayed; when it arrives, its engine has stopped.
  relay.delayMs = 3000
  const from = relay.passed.length
  const began = performance.now()
  const answer = send(request)
  try {
    await until(
      async () => relay.passed.slice(from).some((line) => line === 'POST /v1/completions 200'),
      'the prefill leg to be answered',
    )
  } finally {
    prefill.process?.kill('SIGKILL')
    relay.delayMs = 0
  }
  const { status, headers, body: text } = await answer
  const output = status === 200 ? textOf(JSON.parse(text.toString('utf8'))) : text.toString('utf8').slice(0, 200)
  const result =
    `${status} by ${headers['x-firstlight-engine'] ?? 'nobody'} after ` +
    `${((performance.now() - began) / 1000).toFixed(1)} s ` +
    `(${headers['x-firstlight-decision']?.split(';').slice(1).join(';') || 'first try'}): ${JSON.stringify(output)}`
  check(status === 200 && output === expected, `${result}, not ${JSON.stringify(expected)}`)
  const alive = await send({ url: decode.url, method: 'GET', path: '/health' }).then(
    ({ status: health }) => health === 200,
    () => false,
  )
  check(alive, `the decode engine did not survive it; ${result}`)
  return `${result}; the decode engine lives`
}

/** From the first passed health check of the restarted engine: the gateway's own next check, and a trial. */
const BACK_WITHIN_MS = 10_000

async function decodeDies(lab: Lab, kind: GatewayKind): Promise<string> {
  await lab.engine('prefill')
  const decode = await lab.engine('decode')
  await lab.gateway(kind, 'split')
  // Both are healthy again.
  await until(
    async () => (await send(await through(lab, kind, ask(49, 40), { fleet: 'split' }))).status === 200,
    'a first answer',
    { everyMs: 500, limitMs: 30_000 },
  )
  const { response } = await open({
    ...(await through(lab, kind, { ...endless, stream: true }, { fleet: 'split' })),
    limitMs: 60_000,
  })
  let text = ''
  let killed = false
  try {
    for await (const piece of response) {
      text += String(piece)
      if (killed || text.length < 1000) continue
      killed = true
      decode.process?.kill('SIGKILL')
    }
  } catch {
    // The gateway breaks the connection after its error event.
  }
  check(killed, `the stream ended before its engine was killed: ${text.slice(-200)}`)
  check(/"error"/.test(text) && !text.includes('[DONE]'), `the stream ended in ${JSON.stringify(text.slice(-200))}`)
  const refused: string[] = []
  for (let round = 50; round < 53; round++) {
    const began = performance.now()
    const { status } = await send(await through(lab, kind, ask(round, 300), { fleet: 'split' }))
    refused.push(`${status} in ${Math.round(performance.now() - began)} ms`)
  }
  check(
    refused.every((line) => /^50[23]/.test(line)),
    `without a decode engine: ${refused.join(', ')}`,
  )
  await lab.engine('decode')
  const back = await until(
    async () => (await send(await through(lab, kind, ask(54, 300), { fleet: 'split' }))).status === 200,
    'the decode engine to be found again',
    { everyMs: 250, limitMs: BACK_WITHIN_MS },
  )
  check(back <= BACK_WITHIN_MS, `served only ${(back / 1000).toFixed(1)} s after the decode engine was back`)
  return (
    `the stream ended in ${JSON.stringify(text.trimEnd().split('\n').at(-1)!.slice(0, 140))}; then ` +
    `${refused.join(', ')}; served ${(back / 1000).toFixed(1)} s after it was back`
  )
}
