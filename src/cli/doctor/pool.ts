/** Compares the engines of a pool with each other and with the pool's vocabulary. */
import type { PoolSettings } from '../../config.ts'
import { PromptAnalyzer } from '../../core/tokens/prompt-analyzer.ts'
import { openVocabularies, type OpenVocabulary } from '../../vocabulary.ts'
import { fileVocabularies } from '../../platform/node/vocabulary.ts'
import { cardOf, type EngineFacts } from './engine/facts.ts'
import { SAMPLE_CHAT, SAMPLE_TEXT } from './engine/sample.ts'
import { Findings, type Remedy, type Subject } from './finding.ts'
import { answered, ask, type AskResult, type Endpoint } from './ask.ts'

/* Identifies the server at an address. */

type Kind = 'engine' | 'coordinator' | 'controller' | 'lmcache server' | 'gateway'

/** Returns `engine` unless a route shows another product. Never throws: an unreachable server counts as an engine. */
export async function kindOf(place: Endpoint, limitMs: number): Promise<Kind> {
  const [healthz, healthcheck, query, ready] = await Promise.all(
    ['/healthz', '/healthcheck', '/query_instance', '/ready'].map((path) => ask(place, { path, limitMs })),
  )
  if (/^(ready|not_ready)$/.test(statusOf(ready!))) return 'gateway'
  if (statusOf(healthz!) === 'healthy') return 'coordinator'
  if (/^(un)?healthy$/.test(statusOf(healthcheck!))) return 'lmcache server'
  return answered(query!) && query!.status === 405 ? 'controller' : 'engine'
}

/** Reads `{"status": …}` of a health check; empty if there is none. */
export function statusOf(asked: AskResult): string {
  try {
    const { status } = JSON.parse(answered(asked) ? asked.text : '') as { status?: unknown }
    return typeof status === 'string' ? status : ''
  } catch {
    return ''
  }
}

/** A reachable engine of the pool. */
export interface Member {
  readonly id: string
  readonly facts: EngineFacts
}

/** @param folder folder that the vocabulary's relative name starts at */
export async function examinePool(
  name: string,
  pool: PoolSettings,
  members: readonly Member[],
  folder: string,
): Promise<Subject> {
  const found = new Findings()
  if (members.length > 1) {
    for (const difference of DIFFERENCES) compare(difference, pool, { members, found })
    if (found.list.length === 0)
      found.ok('alike', `${members.length} engines: the same model, version, cache blocks and tokens`)
  }
  await checkVocabulary(pool, members, { folder, found })
  return { kind: 'pool', name, url: null, is: '', findings: found.list }
}

interface Difference {
  readonly check: string
  readonly what: string
  /** null: not reported, so not compared. */
  of(facts: EngineFacts, pool: PoolSettings): string | null
  readonly mark: 'note' | 'warning' | 'problem'
  readonly remedy: Remedy
}

const DIFFERENCES: readonly Difference[] = [
  {
    check: 'same_model',
    what: 'serve different models under one name',
    mark: 'problem',
    of: ({ models }, { model }) => cardOf(models, model)?.root ?? null,
    remedy: { costs: 'Clients get either model.', next: 'Configure a separate pool for each model.' },
  },
  {
    check: 'same_length',
    what: 'accept prompts of different maximum lengths',
    mark: 'warning',
    of: ({ models }, { model }) => text(cardOf(models, model)?.maxModelLen),
    remedy: {
      costs: 'Some engines reject long prompts.',
      next: 'vllm serve … --max-model-len, the same on all.',
    },
  },
  {
    check: 'same_tokens',
    what: 'tokenize the same text differently',
    mark: 'problem',
    of: ({ tokens }) => tokens.ids?.join() ?? null,
    remedy: {
      costs: 'Prefixes cached on one do not match on the other.',
      next: 'Compare their --tokenizer and the files of the model.',
    },
  },
  {
    check: 'same_template',
    what: 'have different chat templates',
    mark: 'problem',
    of: ({ tokens }) => tokens.chat?.join() ?? null,
    remedy: {
      costs: 'The same chat becomes different prompts: different answers, and no shared cache.',
      next: 'Compare their --chat-template.',
    },
  },
  {
    check: 'same_blocks',
    what: 'cache blocks of different sizes',
    mark: 'note',
    of: ({ metrics }) => text(metrics.scraped?.stats.blockTokens),
    remedy: {
      costs: 'The estimate of cached tokens is wrong by up to one block on some of them.',
      next: 'vllm serve … --block-size, the same on all.',
    },
  },
  {
    check: 'same_version',
    what: 'run different versions',
    mark: 'note',
    of: ({ version }) => version,
    remedy: { costs: 'They may answer differently.' },
  },
]

const text = (value: number | null | undefined): string | null => (value == null ? null : String(value))

interface Compared {
  readonly members: readonly Member[]
  readonly found: Findings
}

function compare(
  { check, what, of, mark, remedy }: Difference,
  pool: PoolSettings,
  { members, found }: Compared,
): void {
  const groups = new Map<string, string[]>()
  for (const { id, facts } of members) {
    const value = of(facts, pool)
    if (value !== null) groups.set(value, [...(groups.get(value) ?? []), id])
  }
  if (groups.size < 2) return
  const named = [...groups].map(
    ([value, ids]) => `${ids.join(', ')}${value.length > 80 || value.includes(',') ? '' : `: ${value}`}`,
  )
  found.add(mark, check, `its engines ${what} (${named.join(' | ')})`, remedy)
}

interface Folder {
  readonly folder: string
  readonly found: Findings
}

async function checkVocabulary(
  pool: PoolSettings,
  members: readonly Member[],
  { folder, found }: Folder,
): Promise<void> {
  if (pool.tokenizer === null) {
    // The size of audio determines its token count.
    if (members.length > 0 && members.every(({ facts }) => facts.switches.onlyHears)) return
    return found.note('vocabulary', 'none: prompts are measured in bytes', {
      costs:
        'Counts are off by some percent, and block boundaries differ from the engines’: fewer cache hits are ' +
        'predicted.',
      next:
        `firstlight vocab compile MODEL_FOLDER -o model.vocab, and \`tokenizer: model.vocab\` in pool ` +
        `${pool.model}.`,
    })
  }
  try {
    const opened = await openVocabularies([pool.tokenizer], fileVocabularies(folder))
    fit(opened.get(pool.tokenizer)!, pool, { members, found })
  } catch (error) {
    found.problem('vocabulary', error instanceof Error ? error.message : String(error), {
      costs: 'The gateway on Node will not start.',
      next: 'On Workers this is a storage key, not a file: ignore this finding there.',
    })
  }
}

/** Compares our token ids of the samples with the engine's. */
function fit(
  { tokenizer, template }: OpenVocabulary,
  pool: PoolSettings,
  { members, found }: { readonly members: readonly Member[]; readonly found: Findings },
): void {
  const asked = members.filter(({ facts }) => facts.tokens.ids !== null)
  if (asked.length === 0)
    return found.note('vocabulary', `${pool.tokenizer} is valid; no engine has /tokenize to compare it with`)
  const utf8 = new TextEncoder()
  const meter = new PromptAnalyzer({
    model: pool.model,
    blockTokens: pool.blockTokens,
    encodeUtf8: (from, into) => utf8.encodeInto(from, into).written,
    now: () => 0,
    tokenizer,
    template,
  })
  const ours = (endpoint: 'tokenize' | 'chat', body: object): string =>
    meter
      .measure({ endpoint, body, bodyBytes: 0, adapter: null, salts: [], tenant: null, withIds: true })
      .ids?.join() ?? 'none'
  const remedy = {
    costs: 'Token counts are wrong, and cache hits are not predicted.',
    next: `Compile it from the model the engines serve: firstlight vocab compile MODEL_FOLDER -o ${pool.tokenizer}`,
  }
  const texts = asked.filter(({ facts }) => facts.tokens.ids!.join() !== ours('tokenize', { prompt: SAMPLE_TEXT }))
  if (texts.length > 0)
    return found.problem(
      'vocabulary',
      `${pool.tokenizer} differs from ${names(texts)}: other token ids for the sample text`,
      remedy,
    )
  found.ok('vocabulary', `${pool.tokenizer}: same token ids as ${names(asked)}`)
  if (template === null)
    return found.note('chat_template', 'not in the vocabulary', {
      costs: 'Chats are measured in bytes.',
      next: 'Compile it again with --template chat_template.jinja.',
    })
  const chats = asked.filter(({ facts }) => facts.tokens.chat !== null)
  const unlike = chats.filter(({ facts }) => facts.tokens.chat!.join() !== ours('chat', SAMPLE_CHAT))
  if (unlike.length > 0)
    found.problem('chat_template', `differs from that of ${names(unlike)}: other token ids for the sample chat`, {
      ...remedy,
      next: `${remedy.next} --template FILE, the engines’ --chat-template.`,
    })
  else if (chats.length > 0) found.ok('chat_template', `the same as that of ${names(chats)}`)
}

const names = (members: readonly Member[]): string => members.map(({ id }) => id).join(', ')
