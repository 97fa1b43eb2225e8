/** What a decode engine has in its prefix cache after a transfer, by its own counters and events. */
import { vllmBlockHashes } from '../block-hash.ts'
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import type { FleetName } from '../fleets.ts'
import { send } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { direct, through } from './asks.ts'
import { moved, prompt } from './disaggregation.ts'
import { batchesOf } from './events.ts'

const blockTokens = 32
const outputTokens = 40
const addedTokens = 100

interface Pair {
  readonly fleet: FleetName
  readonly prefill: 'prefill' | 'file-prefill'
  readonly decode: 'decode' | 'file-decode'
  readonly connector: string
  /** Number of the first prompt: no other row uses them. */
  readonly round: number
}

export const decodeReuseRows: readonly Row[] = [
  { fleet: 'split', prefill: 'prefill', decode: 'decode', connector: 'nixl', round: 2000 } as const,
  { fleet: 'files', prefill: 'file-prefill', decode: 'file-decode', connector: 'files', round: 2400 } as const,
].map((pair) => ({
  name: `decode-reuse-${pair.connector}`,
  says:
    `After a transfer (${pair.connector}), the decode engine has all full blocks of the prompt and of the output in ` +
    'its prefix cache, announces them in KV events, and fetches only what is missing for the next turn.',
  run: async (lab: Lab) => reuse(lab, pair),
}))

interface CompletionBody {
  readonly choices: readonly { readonly token_ids?: readonly number[] }[]
  readonly usage: {
    readonly prompt_tokens: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number }
  }
}

async function reuse(lab: Lab, { fleet, prefill, decode: name, round }: Pair): Promise<string> {
  await lab.engine(prefill)
  const decode = await lab.engine(name)
  const seen = (await batchesOf(lab, decode, 0)).length
  const first = prompt(round)
  const one = await split(lab, { fleet, decode, tokens: first })
  const answer = one.completion.choices[0]!.token_ids ?? []
  check(answer.length === outputTokens, `${answer.length} output tokens`)
  // The last output token is not computed.
  const conversation = [...first, ...answer]
  const full = wholeBlocks(conversation.length - 1)
  const announcedBlocks = await announced(lab, decode, seen, conversation)
  const next = [...conversation, ...prompt(round + 1).slice(0, addedTokens)]
  const whole = await ask(decode, { ...bodyOf(next), max_tokens: 1 })
  const reused = whole.usage.prompt_tokens_details?.cached_tokens ?? 0
  check(reused === full, `of ${conversation.length} tokens of the first turn, the decode engine reused ${reused}`)
  // A second conversation whose next turn is split, too: the connector fetches the rest only.
  const other = prompt(round + 2)
  const began = await split(lab, { fleet, decode, tokens: other })
  const turn = [...other, ...(began.completion.choices[0]!.token_ids ?? []), ...prompt(round + 3).slice(0, addedTokens)]
  const again = await split(lab, { fleet, decode, tokens: turn })
  return (
    `prompt ${first.length}, output ${answer.length}: ${announcedBlocks} blocks announced; the next turn, whole: ${reused} tokens ` +
    `reused; first turn, split: ${one.fetched} tokens fetched; next turn of ${turn.length}, split: ` +
    `${again.fetched} fetched, cached_tokens ${again.completion.usage.prompt_tokens_details?.cached_tokens ?? 0}`
  )
}

const wholeBlocks = (tokens: number): number => tokens - (tokens % blockTokens)

const bodyOf = (tokens: readonly number[]) => ({
  model: servedModel,
  prompt: tokens,
  temperature: 0,
  ignore_eos: true,
  return_token_ids: true,
})

async function split(
  lab: Lab,
  { fleet, decode, tokens }: { fleet: FleetName; decode: RealEngine; tokens: readonly number[] },
): Promise<{ readonly completion: CompletionBody; readonly fetched: number }> {
  const before = await moved(decode)
  const request = await through(lab, 'node', { ...bodyOf(tokens), max_tokens: outputTokens }, { fleet })
  const answer = await send(request)
  check(answer.status === 200, `${answer.status}: ${answer.body.toString('utf8').slice(0, 200)}`)
  check(answer.headers['x-firstlight-prefill'] !== undefined, 'a request was not split')
  // The engine counts a moment later, and this connector's own count may stay at zero.
  await until(async () => (await moved(decode)) > before, 'the decode engine to count', { limitMs: 3000 }).catch(
    () => 0,
  )
  return {
    completion: JSON.parse(answer.body.toString('utf8')) as CompletionBody,
    fetched: (await moved(decode)) - before,
  }
}

async function ask(engine: RealEngine, body: object): Promise<CompletionBody> {
  const answer = await send(direct(engine, body))
  check(answer.status === 200, `${answer.status}: ${answer.body.toString('utf8').slice(0, 200)}`)
  return JSON.parse(answer.body.toString('utf8')) as CompletionBody
}

/** Number of the conversation's full blocks in the engine's KV events after the first `seen` batches. All must be. */
async function announced(lab: Lab, engine: RealEngine, seen: number, tokens: readonly number[]): Promise<number> {
  const batches = (await batchesOf(lab, engine, seen)).filter(({ seq }) => seq >= seen)
  const stored = new Set(
    batches
      .flatMap(({ payload }) => payload[1])
      .flatMap((event) => (event.type === 'BlockStored' ? event.block_hashes! : [])),
  )
  const known = wholeBlocks(tokens.length - 1)
  const ours = vllmBlockHashes(tokens.slice(0, known), { hashSeed: '0', blockTokens, cacheSalt: null })
  const announcedBlocks = ours.filter((hash) => stored.has(hash)).length
  check(announcedBlocks === ours.length, `of ${ours.length} full blocks, ${announcedBlocks} are in KV events`)
  return announcedBlocks
}
