/** Prompts that an edge has measured and its region does not measure again, on any runtime. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MEASURED_PROMPT_HEADER } from '../../src/api/prompt/measured-prompt.ts'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'

const CLIENT = 'client-key-1'
const EDGE = 'edge-key-2'
const PLAIN = 'plain-key-3'
const ADMIN = 'admin-key-4'
const MODEL = 'sim'
/** Small, so that a prompt exceeds the limit before the context of the engine. */
const BLOCK_TOKENS = 4

export interface MeasuredPromptParts {
  /** Configuration of the edge; `tokenizer` is the vocabulary's name, `gateway` where the region is. */
  readonly edge: (tokenizer: string, gateway: object) => object
  readonly region: (tokenizer: string) => object
}

export interface MeasuredPromptWay {
  /** Longest header that the region accepts. */
  readonly maxBytes: number
  readonly start: (parts: MeasuredPromptParts) => Promise<RunningPair>
}

export interface RunningPair {
  /** URLs of the edge and of its region. */
  readonly edge: string
  readonly region: string
  /** Measured prompt in the last inference request from the edge to the region. null: it had none. */
  readonly sent: () => Promise<string | null>
  readonly close: () => Promise<void>
}

interface Decision {
  readonly prompt_tokens: number
  readonly token_source: string
  readonly predicted_cached_tokens: number
}

interface Ask {
  readonly key?: string
  readonly header?: string
  readonly salt?: string
}

/** Each prompt has a different first word. */
let written = 0
function promptOf(words: number): string {
  const own = ++written
  return Array.from({ length: words }, (_, at) => ((at * 2_654_435_761 + own * 40_503) >>> 0).toString(36)).join(' ')
}

const edgeDocument: MeasuredPromptParts['edge'] = (tokenizer, gateway) => ({
  version: 1,
  keys: [{ name: 'clients', secret: CLIENT }],
  admin: { secret: ADMIN },
  log: { level: 'silent' },
  clusters: [
    {
      id: 'paris',
      gateway: { ...gateway, key: EDGE, models: [{ model: MODEL, tokenizer, block_tokens: BLOCK_TOKENS }] },
    },
  ],
})

const regionDocument = (engines: readonly string[]) => (tokenizer: string) => ({
  version: 1,
  keys: [
    { name: 'edge', secret: EDGE, edge: true, allow_overrides: true },
    { name: 'plain', secret: PLAIN },
  ],
  admin: { secret: ADMIN },
  log: { level: 'silent' },
  clusters: [
    {
      id: 'here',
      pools: [
        {
          model: MODEL,
          tokenizer,
          block_tokens: BLOCK_TOKENS,
          engines: engines.map((url, at) => ({ id: `e${at}`, url })),
        },
      ],
    },
  ],
})

/** A header with other fields: 1 cut, 4 tokens, 6 blocks. */
function changed(header: string, field: number, value: string): string {
  const parts = header.split('.')
  parts[field] = value
  return parts.join('.')
}

export function measuredPromptContract(name: string, { start, maxBytes }: MeasuredPromptWay): void {
  let fleet: RunningFleet
  let pair: RunningPair

  beforeAll(async () => {
    fleet = await startFleet({ engines: 1, model: MODEL, profile: 'demo' })
    pair = await start({ edge: edgeDocument, region: regionDocument(fleet.urls) })
    // The edge learns from the first response what its region accepts.
    await viaEdge(promptOf(3))
  })

  afterAll(async () => {
    await pair.close()
    await fleet.close()
  })

  /** Sends a chat and returns the region's decision and the response's headers. */
  async function ask(base: string, prompt: string, { key, header, salt }: Ask) {
    const response = await fetch(`${base}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        ...(header === undefined ? {} : { [MEASURED_PROMPT_HEADER]: header }),
      },
      body: JSON.stringify({
        model: MODEL,
        max_tokens: 2,
        messages: [{ role: 'user', content: prompt }],
        ...(salt === undefined ? {} : { cache_salt: salt }),
      }),
    })
    expect(response.status, await response.text()).toBe(200)
    const id = response.headers.get('x-request-id')!
    const known = await fetch(`${pair.region}/v1/firstlight/requests/${id}`, {
      headers: { authorization: `Bearer ${ADMIN}` },
    })
    const { decision } = (await known.json()) as { readonly decision: Decision }
    const { prompt_tokens: tokens, token_source: source, predicted_cached_tokens: cached } = decision
    return { tokens, source, cached, headers: response.headers }
  }

  const viaEdge = (prompt: string, more: Ask = {}) => ask(pair.edge, prompt, { key: CLIENT, ...more })
  const direct = (prompt: string, more: Ask = {}) => ask(pair.region, prompt, { key: EDGE, ...more })

  /** What an edge sends for this prompt. */
  async function headerOf(prompt: string): Promise<string> {
    await viaEdge(prompt)
    const header = await pair.sent()
    expect(header).not.toBeNull()
    return header!
  }

  describe(`measured prompts on ${name}`, () => {
    it('measured prompts have the tokens and blocks that the region measures itself', async () => {
      const prompt = promptOf(300)
      // With another salt the same prompt is a new one.
      const twice = async (again: typeof direct) => {
        const salt = promptOf(1)
        const both = [await direct(prompt, { salt }), await again(prompt, { salt })]
        return both.map(({ tokens, source, cached }) => ({ tokens, source, cached }))
      }
      const received = await twice(viaEdge)
      expect(await pair.sent()).toMatch(/^1\./)
      const measured = await twice(direct)
      expect(received).toEqual(measured)
      expect(received[1]).toMatchObject({ source: 'exact', cached: expect.any(Number) })
      expect(received[1]!.cached).toBeGreaterThan(1_900)
    })

    it('measured prompts are known again after the region has measured the beginning, and the reverse', async () => {
      const [one, other] = [promptOf(200), promptOf(200)]
      await viaEdge(one)
      await direct(other)
      expect((await direct(`${one} and more`)).cached).toBeGreaterThan(200)
      expect((await viaEdge(`${other} and more`)).cached).toBeGreaterThan(200)
    })

    it('measured prompts include the salt of the prompt', async () => {
      const prompt = promptOf(200)
      await viaEdge(prompt, { salt: 'a' })
      expect((await direct(prompt, { salt: 'a' })).cached).toBeGreaterThan(200)
      expect((await direct(prompt, { salt: 'b' })).cached).toBe(0)
    })

    it('measured prompts are believed with a key that has `edge`, and with no other', async () => {
      const prompt = promptOf(40)
      const header = await headerOf(prompt)
      const { tokens } = await direct(prompt)
      const forged = changed(header, 4, '77777')
      expect((await direct(prompt, { header: forged })).tokens).toBe(77_777)
      expect((await direct(prompt, { header: forged, key: PLAIN })).tokens).toBe(tokens)
    })

    it('from a client of the edge have no effect', async () => {
      const prompt = promptOf(40)
      const header = await headerOf(prompt)
      const { tokens } = await direct(prompt)
      expect((await viaEdge(prompt, { header: changed(header, 4, '77777') })).tokens).toBe(tokens)
      expect(await pair.sent()).toBe(header)
    })

    it('measured prompts that are malformed or too long are measured again', async () => {
      const prompt = promptOf(40)
      const header = await headerOf(prompt)
      const { tokens } = await direct(prompt)
      const forged = changed(header, 4, '77777')
      const blocks = Math.ceil((maxBytes * 3) / 4 / 8)
      const wrong = [
        'x',
        '1',
        changed(forged, 0, '2'),
        changed(forged, 1, '7'),
        changed(forged, 2, '7'),
        changed(forged, 4, '1'),
        changed(forged, 4, '-1'),
        changed(forged, 4, '1e9'),
        changed(forged, 5, '88888'),
        changed(forged, 6, 'AAAA'),
        changed(forged, 6, 'AAAAAAAAAAA='),
        `${forged}.`,
        changed(changed(forged, 4, String(blocks * BLOCK_TOKENS)), 6, btoa('x'.repeat(blocks * 8))),
      ]
      const seen = []
      for (const one of wrong) seen.push((await direct(prompt, { header: one })).tokens)
      expect(seen).toEqual(wrong.map(() => tokens))
      expect(wrong.at(-1)!.length).toBeGreaterThan(maxBytes)
    })

    it('measured prompts with another salt than the request are measured again', async () => {
      const prompt = promptOf(200)
      const header = await headerOf(prompt)
      expect((await direct(prompt, { header, salt: 'secret' })).cached).toBe(0)
    })

    it('measured prompts are not sent beyond the limit', async () => {
      const prompt = promptOf(maxBytes / 16)
      expect((await viaEdge(prompt)).source).toBe('exact')
      expect(await pair.sent()).toBeNull()
    })

    it('measured prompts are offered to edges only', async () => {
      const offered = (await direct(promptOf(3))).headers.get(MEASURED_PROMPT_HEADER)
      expect(offered).toMatch(new RegExp(`^1\\.\\d+\\.${maxBytes}$`))
      expect((await direct(promptOf(3), { key: PLAIN })).headers.get(MEASURED_PROMPT_HEADER)).toBeNull()
      expect((await viaEdge(promptOf(3))).headers.get(MEASURED_PROMPT_HEADER)).toBeNull()
    })
  })
}
