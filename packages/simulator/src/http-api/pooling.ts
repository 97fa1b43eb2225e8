import { type Answer, type Incoming, json } from '../answer.ts'
import { blockKeys, rollHash } from '../block-keys.ts'
import type { Sequence } from '../sequence.ts'
import { encode } from '../tokenizer.ts'
import { type Body, numberOf } from './body-fields.ts'
import { admit, checkPrompt, modelOf } from './generation.ts'
import { readPrompts } from './prompts.ts'
import { readBody } from './read-body.ts'
import type { Serving } from './serving.ts'
import { tokensOf } from './tokenize.ts'
import { missing } from './wire-error.ts'

const DIMENSIONS = 64

/** POST /v1/embeddings. */
export async function embeddings(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const pooled = await pool(serving, incoming, { body, prompts: inputs(serving, body) })
  const dimensions = numberOf(body, 'dimensions') ?? DIMENSIONS
  const base64 = body['encoding_format'] === 'base64'
  const data = pooled.prompts.map((tokens, index) => {
    const vector = vectorOf(tokens, dimensions)
    return { index, object: 'embedding', embedding: base64 ? toBase64(vector) : Array.from(vector) }
  })
  return json(200, list('embd-', pooled, data))
}

/** POST /pooling. */
export async function pooling(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const pooled = await pool(serving, incoming, { body, prompts: inputs(serving, body) })
  const data = pooled.prompts.map((tokens, index) => ({
    index,
    object: 'pooling',
    data: Array.from(vectorOf(tokens, DIMENSIONS)),
  }))
  return json(200, list('pool-', pooled, data))
}

/** POST /classify. */
export async function classify(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const pooled = await pool(serving, incoming, { body, prompts: inputs(serving, body) })
  const data = pooled.prompts.map((tokens, index) => {
    const first = share(tokens)
    return { index, label: first >= 0.5 ? 'LABEL_0' : 'LABEL_1', probs: [first, 1 - first], num_classes: 2 }
  })
  return json(200, list('classify-', pooled, data))
}

/** POST /score: how well each text of `text_2` fits `text_1`. */
export async function score(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const queries = textsOf(body, ['text_1', 'queries'])
  const documents = textsOf(body, ['text_2', 'documents', 'items'])
  const prompts = documents.map((document, at) =>
    encode(`${queries[queries.length === 1 ? 0 : at] ?? ''}\n${document}`),
  )
  const pooled = await pool(serving, incoming, { body, prompts })
  const data = pooled.prompts.map((tokens, index) => ({ index, object: 'score', score: share(tokens) }))
  return json(200, list('score-', pooled, data))
}

/** POST /rerank: documents, best first. */
export async function rerank(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const [query] = textsOf(body, ['query'])
  const documents = textsOf(body, ['documents'])
  const pooled = await pool(serving, incoming, {
    body,
    prompts: documents.map((document) => encode(`${query}\n${document}`)),
  })
  const results = pooled.prompts
    .map((tokens, index) => ({
      index,
      document: { text: documents[index]!, multi_modal: null },
      relevance_score: share(tokens),
    }))
    .sort((a, b) => b.relevance_score - a.relevance_score)
  return json(200, {
    id: `rerank-${pooled.id}`,
    model: pooled.model,
    usage: { prompt_tokens: pooled.promptTokens, total_tokens: pooled.promptTokens },
    results: results.slice(0, numberOf(body, 'top_n') ?? results.length),
  })
}

interface PoolingRequest {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly prompts: readonly Uint32Array[]
  readonly promptTokens: number
}

const list = (prefix: string, pooled: PoolingRequest, data: readonly object[]): object => ({
  id: `${prefix}${pooled.id}`,
  object: 'list',
  created: pooled.created,
  model: pooled.model,
  data,
  usage: {
    prompt_tokens: pooled.promptTokens,
    total_tokens: pooled.promptTokens,
    completion_tokens: 0,
    prompt_tokens_details: null,
  },
})

/** Reads `input`: a text, token ids, a list of either, or a chat. */
function inputs(serving: Serving, body: Body): readonly Uint32Array[] {
  if (body['messages'] !== undefined) return [tokensOf(body)]
  if (body['input'] === undefined) throw missing('input', body)
  return readPrompts(serving, { ...body, prompt: body['input'] }).map(({ tokens }) => tokens)
}

/** Reads the text or texts of the first key that is present. */
function textsOf(body: Body, keys: readonly [string, ...string[]]): readonly string[] {
  const found = keys.map((key) => body[key]).find((value) => value !== undefined)
  if (found === undefined) throw missing(keys[0], body)
  const entries: unknown[] = Array.isArray(found) ? found : [found]
  return entries.map((entry) =>
    typeof entry === 'string' ? entry : String((entry as { text?: unknown } | null)?.text ?? ''),
  )
}

/** Runs every prompt through the engine as a prefill. */
async function pool(
  serving: Serving,
  incoming: Incoming,
  work: { body: Body; prompts: readonly Uint32Array[] },
): Promise<PoolingRequest> {
  const model = modelOf(serving, work.body)
  for (const prompt of work.prompts) checkPrompt(serving, prompt, null)
  admit(serving, work.prompts.length)
  await Promise.all(work.prompts.map((prompt) => prefill(serving, incoming, { prompt, model })))
  return {
    id: incoming.headers.get('x-request-id') ?? serving.newId(),
    created: Math.floor(serving.clock.now() / 1000),
    model,
    prompts: work.prompts,
    promptTokens: work.prompts.reduce((sum, prompt) => sum + prompt.length, 0),
  }
}

function prefill(
  serving: Serving,
  incoming: Incoming,
  { prompt, model }: { prompt: Uint32Array; model: string },
): Promise<Sequence> {
  return new Promise((resolve) => {
    const blocks = blockKeys(prompt, serving.settings.limits.blockTokens, `${model}\n`)
    const sequence = serving.driver.submit(
      { promptTokens: prompt.length, outputTokens: 1, blocks },
      { token: () => undefined, ended: resolve },
    )
    incoming.signal.addEventListener('abort', () => serving.driver.abort(sequence), { once: true })
  })
}

/** Computes a unit vector that depends on every token. */
function vectorOf(tokens: Uint32Array, dimensions: number): Float32Array {
  const vector = new Float32Array(dimensions)
  let state = 1
  for (const token of tokens) {
    state = rollHash(state, token)
    vector[state % dimensions]! += 1
  }
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0)) || 1
  return vector.map((value) => value / length)
}

/** Computes a number in [0, 1) that depends on every token. */
function share(tokens: Uint32Array): number {
  let state = 1
  for (const token of tokens) state = rollHash(state, token)
  return (state % 10_000) / 10_000
}

function toBase64(vector: Float32Array): string {
  let binary = ''
  for (const byte of new Uint8Array(vector.buffer)) binary += String.fromCharCode(byte)
  return btoa(binary)
}
