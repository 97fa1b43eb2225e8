import { describe, expect, it } from 'vitest'
import { ANYONE, type Caller } from '../../../src/api/auth/caller.ts'
import { EdgePrompts } from '../../../src/api/prompt/edge-prompts.ts'
import { MEASURED_PROMPT_HEADER as NAME } from '../../../src/api/prompt/measured-prompt.ts'
import type { InferenceRequest } from '../../../src/api/inference-request.ts'
import type { PromptAnalyzers } from '../../../src/api/prompt/prompt-analyzers.ts'
import type { PromptProfile } from '../../../src/core/tokens/prompt-analyzer.ts'
import type { PromptRequest } from '../../../src/core/tokens/prompt-request.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'

const FINGERPRINT = 7
const BYTES = 8192
const route = { pool: { tokenizer: 'a.vocab', blockTokens: 16 } } as PoolRoute
const request = { salts: [] } as unknown as PromptRequest
const profile: PromptProfile = {
  promptTokens: 33,
  tokenSource: 'exact',
  blocks: Uint32Array.of(1, 2, 3, 4),
  stages: {},
  items: 0,
  promptBytes: null,
  ids: null,
  inexact: null,
}
const target = { binding: null, headers: [] }
const edge: Caller = { ...ANYONE, tenant: 'edge' }

function open({ hasKeys = true, fingerprint = FINGERPRINT, scope = 5 } = {}): EdgePrompts {
  const analyzers = { scopeOf: () => ({ lo: scope, hi: scope }) } as unknown as PromptAnalyzers
  return new EdgePrompts({
    analyzers,
    fingerprintOf: () => fingerprint,
    hasKeys,
    ports: { maxMeasuredPromptBytes: BYTES },
  })
}

/** What an edge sends to a region that answered with `offer`. */
function sent(
  offer: readonly string[],
  { of = {}, others = [] }: { readonly of?: Partial<PromptProfile>; readonly others?: readonly string[] } = {},
  end = open(),
): readonly string[] {
  end.recordOffer(route, offer)
  return end.headersFor(route, { request, prompt: { ...profile, ...of } }, target, others)
}

/** What a region reads from a request, and the field of its log line. */
function received(header: string, caller: Caller, end = open(), of: Partial<PromptRequest> = {}) {
  const logFields: Record<string, unknown> = {}
  const incoming = { request: { headers: new Headers({ [NAME]: header }) }, logFields }
  const inference = { caller, incoming } as unknown as InferenceRequest
  return { prompt: end.measuredByEdge(inference, route, { ...request, ...of }), field: logFields['edge_prompt'] }
}

describe('a prompt that an edge has measured', () => {
  const offer = open().offer(edge, route)
  const [, header] = sent(offer) as [string, string]

  it('a measured prompt of an edge is the measurement of a region that has offered to accept it', () => {
    const { stages: _, ...measured } = profile
    expect(received(header, edge)).toMatchObject({ prompt: measured, field: 'used' })
  })

  it('a measured prompt of an edge is neither offered nor accepted without keys, where everyone counts as an edge', () => {
    const keyless = open({ hasKeys: false })
    expect(keyless.offer(ANYONE, route)).toEqual([])
    expect(received(header, ANYONE, keyless)).toEqual({ prompt: null, field: undefined })
    expect(received(header, { ...edge, edge: false })).toEqual({ prompt: null, field: undefined })
  })

  it('a measured prompt of an edge is sent only after an offer with an equal division into blocks, until a response has none', () => {
    const end = open()
    expect(end.headersFor(route, { request, prompt: profile }, target, [])).toEqual([])
    expect(sent(offer, {}, end)).toHaveLength(2)
    expect(sent([], {}, end)).toEqual([])
    expect(sent(offer, {}, open({ fingerprint: 8 }))).toEqual([])
  })

  it('a measured prompt of an edge is not sent if it is estimated from bytes, or if the headers would be too long together', () => {
    expect(sent(offer, { of: { tokenSource: 'bytes' } })).toEqual([])
    expect(sent(offer, { others: ['x', 'y'.repeat(7_000)] })).toHaveLength(2)
    expect(sent(offer, { others: ['x', 'y'.repeat(7_700)] })).toEqual([])
  })

  it('a measured prompt of an edge counts all headers against the offer through a binding too, which may lead to a server on Node', () => {
    const end = open()
    end.recordOffer(route, offer)
    const through = (others: readonly string[]) =>
      end.headersFor(route, { request, prompt: profile }, { binding: 'VPC', headers: [] }, others)
    expect(through(['x', 'y'.repeat(7_000)])).toHaveLength(2)
    expect(through(['x', 'y'.repeat(7_700)])).toEqual([])
  })

  it('a measured prompt of an edge is measured again if the region divides or salts otherwise, needs the ids, or cannot read it', () => {
    expect(received(header, edge, open({ fingerprint: 8 }))).toEqual({ prompt: null, field: 'mismatch' })
    expect(received(header, edge, open({ scope: 6 }))).toEqual({ prompt: null, field: 'mismatch' })
    expect(received(header, edge, open(), { withIds: true }).prompt).toBeNull()
    expect(received('1.2.3', edge)).toEqual({ prompt: null, field: 'malformed' })
    expect(received('1'.repeat(BYTES + 1), edge)).toEqual({ prompt: null, field: 'too_long' })
  })

  it('a measured prompt of an edge is not offered by a pool without a vocabulary', () => {
    expect(open().offer(edge, { pool: { tokenizer: null } } as PoolRoute)).toEqual([])
  })
})
