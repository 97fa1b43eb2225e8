/** Compares the engines of a pool with each other and with the pool's vocabulary. */
import type { PoolSettings } from '../../config.ts'
import { cardOf, type EngineFacts, type ReachableEngine } from './engine/facts.ts'
import { Findings, type Remedy, type Subject } from './finding.ts'
import { checkVocabulary } from './vocabulary.ts'

/** @param folder folder that the vocabulary's relative name starts at */
export async function examinePool(
  name: string,
  pool: PoolSettings,
  members: readonly ReachableEngine[],
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

interface Comparison {
  readonly members: readonly ReachableEngine[]
  readonly found: Findings
}

function compare(
  { check, what, of, mark, remedy }: Difference,
  pool: PoolSettings,
  { members, found }: Comparison,
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
