/** Code of a feature that runs although the feature is off, found by the coverage of requests. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { countAt, type CoveredFunction, identityOf } from './coverage.ts'
import type { Feature } from './features.ts'

/** Coverage of the requests of one process. */
export interface Chat {
  readonly requests: number
  /** Of each function, one entry for each request in which it was seen. */
  readonly functions: ReadonlyMap<string, readonly CoveredFunction[]>
}

export function chatOf(requests: readonly (readonly CoveredFunction[])[]): Chat {
  const functions = new Map<string, CoveredFunction[]>()
  for (const covered of requests.flat()) {
    const key = identityOf(covered)
    functions.set(key, [...(functions.get(key) ?? []), covered])
  }
  return { requests: requests.length, functions }
}

/** Coverage of the function in each request. Empty: it did not run in all of them. */
function inAllRequests({ requests, functions }: Chat, key: string): readonly CoveredFunction[] {
  const all = functions.get(key) ?? []
  return all.length === requests && all.every(({ ranges }) => ranges[0]!.count > 0) ? all : []
}

/** Functions that ran in every request of every process, with all their coverage. */
export function steadyFunctions(chats: readonly Chat[]): CoveredFunction[][] {
  return [...chats[0]!.functions.keys()].flatMap((key) => {
    const all = chats.map((chat) => inAllRequests(chat, key))
    return all.every(({ length }) => length > 0) ? [all.flat()] : []
  })
}

type FeatureFiles = Pick<Feature, 'files'>

const belongsTo = ({ files }: FeatureFiles, file: string): boolean =>
  files.some((path) => (path.endsWith('/') ? file.startsWith(path) : file === path))

/** Functions of the feature's files that run in every request without it. */
export function functionsOf(feature: FeatureFiles, off: readonly Chat[]): string[] {
  return steadyFunctions(off).flatMap(([first]) =>
    belongsTo(feature, first!.file) ? `${first!.file} ${first!.name || '(anonymous)'} runs` : [],
  )
}

/**
 * Blocks of other files' functions that run in every request with the feature, and in none without.
 * @param chats `off`: plain ones; `others`: without the feature as well, of another form; `on`: with it
 * @param root folder of the files
 */
export function blocksOf(
  feature: FeatureFiles,
  { off, others, on }: Record<'off' | 'others' | 'on', readonly Chat[]>,
  root: string,
): string[] {
  return steadyFunctions(off).flatMap((withoutIt) => {
    const { file, name, ranges } = withoutIt[0]!
    if (belongsTo(feature, file)) return []
    const withIt = on.map((chat) => inAllRequests(chat, identityOf(withoutIt[0]!)))
    if (withIt.some(({ length }) => length === 0)) return []
    const key = identityOf(withoutIt[0]!)
    const without = [...withoutIt, ...others.flatMap(({ functions }) => functions.get(key) ?? [])]
    const runsOnlyWithIt = (offset: number): boolean =>
      without.every((one) => countAt(one, offset) === 0) && withIt.flat().every((one) => countAt(one, offset) > 0)
    return ranges.flatMap((range) =>
      runsOnlyWithIt(range.startOffset) && !onlyWaits(join(root, file), range)
        ? `${file} ${name || '(anonymous)'} ${lineOf(join(root, file), range.startOffset)}`
        : [],
    )
  })
}

/**
 * Whether a block does nothing but wait for a promise, as in `value instanceof Promise ? await value : value`. It asks
 * for no feature: a value is also a promise if pool state is in another thread or object.
 */
function onlyWaits(file: string, { startOffset, endOffset }: CoveredFunction['ranges'][number]): boolean {
  const text = readFileSync(file, 'utf8').slice(startOffset, endOffset)
  return /^[\s?]*await \w+[\s:]*$/.test(text)
}

/** Line of an offset, with its text. */
function lineOf(file: string, offset: number): string {
  const text = readFileSync(file, 'utf8')
  const line = text.slice(0, offset).split('\n').length
  return `line ${line}: ${text.split('\n')[line - 1]!.trim()}`
}
