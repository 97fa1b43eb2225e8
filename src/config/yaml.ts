/** YAML (JSON is YAML too) to a plain value, with the line of every path. */
import { constructFromEvents, CORE_SCHEMA, EVENT_ID, mergeTag, parseEvents, YAMLException } from 'js-yaml'
import type { Path } from './path.ts'

interface ParsedYaml {
  readonly value: unknown
  /** Line (from 1) of the value at `path`, or of the nearest thing around it; null for an empty text. */
  lineOf(path: Path): number | null
}

export class YamlError extends Error {
  readonly line: number | null

  constructor(message: string, line: number | null) {
    super(message)
    this.name = 'YamlError'
    this.line = line
  }
}

type Events = ReturnType<typeof parseEvents>

/** Maximum number of YAML aliases, against exponential expansion. */
const MAX_ALIASES = 100

/** Parses YAML or JSON. Throws a YamlError. */
export function parseYaml(text: string): ParsedYaml {
  try {
    const events = parseEvents(text, {})
    const values = constructFromEvents(events, {
      source: text,
      schema: CORE_SCHEMA.withTags(mergeTag),
      maxAliases: MAX_ALIASES,
    })
    if (values.length > 1) throw new YamlError('contains more than one document', null)
    const offsets = offsetsOf(events, text)
    return { value: values[0] ?? null, lineOf: (path) => lineOf(text, offsets, path) }
  } catch (error) {
    if (error instanceof YAMLException)
      throw new YamlError(error.reason, error.mark === undefined ? null : error.mark.line + 1)
    throw error
  }
}

/** Offset of each path's value. Keys of the map are the path as JSON. */
function offsetsOf(events: Events, text: string): ReadonlyMap<string, number> {
  const offsets = new Map<string, number>()
  const open: Collection[] = []
  const record = (offset: number): (string | number)[] => {
    const path = open.map((collection) => collection.at)
    offsets.set(JSON.stringify(path), offset)
    return path
  }
  for (const event of events) {
    const parent = open.at(-1)
    if (event.type === EVENT_ID.SCALAR) {
      if (parent?.kind === 'key') parent.at = text.slice(event.valueStart, event.valueEnd)
      else record(event.valueStart)
      advance(parent)
    } else if (event.type === EVENT_ID.ALIAS) {
      record(event.anchorStart)
      advance(parent)
    } else if (event.type === EVENT_ID.MAPPING || event.type === EVENT_ID.SEQUENCE) {
      record(event.start)
      open.push(event.type === EVENT_ID.MAPPING ? { kind: 'key', at: '' } : { kind: 'item', at: 0 })
    } else if (event.type === EVENT_ID.POP) {
      open.pop()
      advance(open.at(-1))
    }
  }
  return offsets
}

/** Collection that is being read, with the next key or item. */
type Collection = { kind: 'key' | 'value'; at: string } | { kind: 'item'; at: number }

function advance(collection: Collection | undefined): void {
  if (collection === undefined) return
  if (collection.kind === 'item') collection.at++
  else collection.kind = collection.kind === 'key' ? 'value' : 'key'
}

function lineOf(text: string, offsets: ReadonlyMap<string, number>, path: Path): number | null {
  for (let length = path.length; length >= 0; length--) {
    const offset = offsets.get(JSON.stringify(path.slice(0, length)))
    if (offset === undefined) continue
    let line = 1
    for (let at = text.indexOf('\n'); at >= 0 && at < offset; at = text.indexOf('\n', at + 1)) line++
    return line
  }
  return null
}
