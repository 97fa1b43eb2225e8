/** KV-cache events of a real engine, over its ZMQ replay socket. */
import { fileURLToPath } from 'node:url'
import { vllmBlockHashes } from '../block-hash.ts'
import { engineKey, servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { sendJson } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { writeLists } from '../vector.ts'

/** As python/kv_events.py prints them: hashes are decimal strings. */
interface Batch {
  readonly seq: number
  readonly payload_hex: string
  readonly payload: readonly [number, readonly KvEvent[], unknown]
}

interface KvEvent {
  readonly type: 'BlockStored' | 'BlockRemoved' | 'AllBlocksCleared'
  readonly block_hashes?: readonly string[]
  readonly parent_block_hash?: string | null
  readonly token_ids?: readonly number[]
  readonly extra_keys?: readonly (readonly string[] | null)[]
}

const script = fileURLToPath(new URL('../python/kv_events.py', import.meta.url))
const span = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => from + at)

const prompts = [
  { prompt: span(100, 32), cacheSalt: null },
  { prompt: span(100, 96), cacheSalt: null },
  { prompt: span(300, 70), cacheSalt: 'tenant-a' },
  { prompt: span(300, 70), cacheSalt: null },
  { prompt: [...span(300, 64), 0, 23, 24, 255, 256, ...span(1000, 59)], cacheSalt: null },
]

export const eventRows: readonly Row[] = [
  {
    name: 'record-kv-events',
    says:
      'KV events name each new full block by the hash that the gateway computes from its tokens, its parent and ' +
      'the salt.',
    run: async (lab) => {
      const engine = await lab.engine('a')
      // A reset is published with the next request, so resets of other rows are published here.
      await ask(engine, span(1500, 32), null)
      const seen = await batchesOf(lab, engine, 0)
      await post(engine, '/reset_prefix_cache', undefined)
      for (const { prompt, cacheSalt } of prompts) await ask(engine, prompt, cacheSalt)
      const batches = (await batchesOf(lab, engine, seen.length)).filter(({ seq }) => seq >= seen.length)
      const stored = batches.flatMap(({ payload }) => payload[1]).filter(({ type }) => type === 'BlockStored')
      const announced = new Set(stored.flatMap(({ block_hashes }) => block_hashes ?? []))
      const ours = prompts.map(({ prompt, cacheSalt }) =>
        vllmBlockHashes(prompt, { hashSeed: '0', blockTokens: 32, cacheSalt }),
      )
      const missing = ours.flat().filter((hash) => !announced.has(hash))
      check(missing.length === 0, `of our ${ours.flat().length} hashes ${missing.length} are in no event`)
      check(
        announced.size === new Set(ours.flat()).size,
        `${announced.size} hashes announced, ${new Set(ours.flat()).size} computed`,
      )
      check(batches[0]?.payload[1][0]?.type === 'AllBlocksCleared', 'the reset was not announced first')
      return (
        `${announced.size} blocks, all hashes equal; the reset came with the next request; ` +
        `${lab.writeVector('kv-events.json', write(batches, ours))}`
      )
    },
  },
]

export async function batchesOf(lab: Lab, { url }: RealEngine, fromSeq: number): Promise<Batch[]> {
  const sources = await sendJson<Record<string, { replay_endpoint: string }>>({
    url,
    method: 'GET',
    path: '/kv_event_sources',
  })
  const endpoint = sources['0']!.replay_endpoint.replace('*', '127.0.0.1')
  const lines = await lab.processes.output([lab.environment.python, script, endpoint, String(fromSeq)])
  return lines === '' ? [] : lines.split('\n').map((line) => JSON.parse(line) as Batch)
}

async function ask(engine: RealEngine, prompt: readonly number[], cacheSalt: string | null): Promise<void> {
  await post(engine, '/v1/completions', {
    model: servedModel,
    prompt,
    max_tokens: 1,
    temperature: 0,
    ...(cacheSalt === null ? {} : { cache_salt: cacheSalt }),
  })
}

async function post({ url }: RealEngine, path: string, body: unknown): Promise<unknown> {
  return sendJson({
    url,
    method: 'POST',
    path,
    headers: { authorization: `Bearer ${engineKey}` },
    ...(body === undefined ? {} : { body }),
  })
}

/** The time of each batch, the first 8 bytes after the array's head, is set to 0. */
function write(batches: readonly Batch[], hashes: readonly (readonly string[])[]): string {
  return writeLists({
    about:
      "vLLM's KV events with sha256_cbor, PYTHONHASHSEED=0, blocks of 32; hashes are unsigned 64-bit, as " +
      'decimal text. payload_hex is msgpack, its time set to 0.',
    prompts: prompts.map(({ prompt, cacheSalt }, at) => ({ prompt, cache_salt: cacheSalt, block_hashes: hashes[at] })),
    batches: batches.map(({ payload_hex, payload }) => ({
      payload_hex: payload_hex.replace(/^93cb.{16}/, `93cb${'0'.repeat(16)}`),
      events: payload[1],
      data_parallel_rank: payload[2],
    })),
  })
}
