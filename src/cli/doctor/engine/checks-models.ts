import { didYouMean } from '../../../config/suggest.ts'
import { guideOf } from '../../../engines/engine-guides.ts'
import type { ModelCard } from '../../../engines/model-list.ts'
import { summaryOf } from '../ask.ts'
import type { Findings } from '../finding.ts'
import type { ExpectedEngine } from './expected.ts'
import { baseCard, type EngineFacts } from './facts.ts'

/** Returns false if no model is served, so that there is nothing else to check. */
export function checkModels(
  { models, version, type, tokens }: EngineFacts,
  expected: ExpectedEngine | null,
  found: Findings,
): boolean {
  const { cards, result } = models
  if (cards === null || cards.length === 0) {
    const remedy = {
      costs: 'Requests for a model fail if no engine serves it.',
      next: 'Check that the URL is that of an OpenAI-compatible server, without /v1.',
    }
    found.problem('models', `/v1/models gives no list (${summaryOf(result)})`, remedy)
    return false
  }
  const base = cards.filter(({ parent }) => parent === null)
  const adapters = cards.filter(({ parent }) => parent !== null)
  const adapterText = adapters.length === 0 ? '' : `; adapters ${adapters.map(({ id }) => id).join(', ')}`
  found.ok('models', `${base.map(nameOf).join(', ')}${lengthOf(baseCard(models))}${adapterText}`)
  const { inspection } = guideOf(type)
  if (inspection === null) found.ok('kind', type.title)
  else if (version === null && tokens.ids === null) {
    found.note('kind', inspection.unlike, {
      costs: 'The gateway uses its metrics and responses. Cache, queue and tokens are the gateway’s own estimates.',
    })
  }
  if (expected !== null) checkNames(cards, expected, found)
  return true
}

const nameOf = ({ id, root }: ModelCard): string => (root === null || root === id ? id : `${id} (${root})`)

const lengthOf = (card: ModelCard | null): string =>
  card?.maxModelLen == null ? '' : `, up to ${card.maxModelLen} tokens`

/** Compares the configured names with the served ones. */
function checkNames(cards: readonly ModelCard[], { pool, engine }: ExpectedEngine, found: Findings): void {
  const served = cards.map(({ id }) => id)
  const wanted = engine.models ?? [pool.model, ...pool.adapters]
  for (const name of wanted.filter((one) => !served.includes(one))) {
    const isAdapter = pool.adapters.includes(name)
    const root = cards.find((card) => card.root === name)
    const hint = root === undefined ? didYouMean(name, served) : `; the served name of this model is ${root.id}`
    found.problem('names', `it does not serve ${isAdapter ? 'the adapter ' : ''}${name}${hint}`, {
      costs: `Requests for ${name} to this engine return 404.`,
      next: isAdapter
        ? `Start it with --enable-lora --lora-modules ${name}=PATH, or list what it serves in its \`models\`.`
        : `Start it with --served-model-name ${name}, or use the name it serves as the pool’s \`model\`.`,
    })
  }
  if (pool.reportsAdapters) return
  const unknown = cards.filter(({ id, parent }) => parent !== null && !pool.adapters.includes(id)).map(({ id }) => id)
  if (unknown.length > 0)
    found.note('adapters', `not in the configuration: ${unknown.join(', ')}`, {
      costs: 'Clients cannot request them.',
      next: `adapters: [${[...pool.adapters, ...unknown].join(', ')}]`,
    })
}
