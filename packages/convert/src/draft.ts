/** Document that a conversion builds, and notes on what differs from the source. */
import { dump } from 'js-yaml'
import type { Tree } from './documents.ts'

type NoteKind = 'todo' | 'differs' | 'dropped'

interface Note {
  readonly kind: NoteKind
  /** Flag or key of the source. */
  readonly item: string
  readonly why: string
}

const HEADINGS: Readonly<Record<NoteKind, string>> = {
  todo: 'To do before the first start:',
  differs: 'Different from the source:',
  dropped: 'Not converted:',
}

/** Placeholder of a model name that the source does not contain. */
const UNKNOWN_MODEL = 'MODEL'

/** Source of a conversion: words of a command line, or the text of a file. `model`: name given by `--model`. */
export interface Source {
  readonly words: readonly string[] | null
  readonly text: string
  readonly model: string | null
}

/** Converts a source. Returns the draft, or null if the source is not of the expected form. */
export type Converter = (source: Source) => Draft | null

export class Draft {
  readonly notes: Note[] = []
  readonly document: Tree = {}
  readonly pools: Tree[] = []

  todo(item: string, why: string): void {
    this.#note({ kind: 'todo', item, why })
  }

  differs(item: string, why: string): void {
    this.#note({ kind: 'differs', item, why })
  }

  dropped(item: string, why: string): void {
    this.#note({ kind: 'dropped', item, why })
  }

  #note(note: Note): void {
    if (!this.notes.some(({ item, why }) => item === note.item && why === note.why)) this.notes.push(note)
  }

  /**
   * Sets `listen`. Other routers accept requests from anyone; this gateway requires keys on addresses other than
   * loopback.
   */
  listen(host: string | null, port: string | null, usual: { readonly host: string; readonly port: number }): void {
    const number = port === null ? usual.port : Number(port)
    const isPort = Number.isInteger(number) && number > 0 && number <= 65_535
    if (!isPort) this.todo('--port', `${JSON.stringify(port)} is not a port; set the port in listen.`)
    const address = host ?? usual.host
    const named = address.includes(':') ? `[${address}]` : address === 'localhost' ? '127.0.0.1' : address
    this.document['listen'] = `${named}:${isPort ? number : usual.port}`
    if (named === '127.0.0.1' || named === '[::1]') return
    if (this.document['keys'] !== undefined) return
    this.document['keys'] = [{ name: 'clients', secret: { env: 'FIRSTLIGHT_KEY' } }]
    this.differs(
      'authentication',
      'the source accepts every request. Clients have to send FIRSTLIGHT_KEY as bearer token; open: true instead of ' +
        'keys accepts every request.',
    )
  }

  /** Model name of the source, or a placeholder with a note. */
  modelOr(model: string | null, item: string): string {
    if (model !== null && model !== '') return model
    this.todo(item, `the source names no model. Replace ${UNKNOWN_MODEL}, or convert again with --model NAME.`)
    return UNKNOWN_MODEL
  }

  /** With client keys, the dashboard and the admin API are closed until they have a key of their own. */
  #admin(): Tree {
    if (this.document['keys'] === undefined) return {}
    this.todo(
      'admin',
      'set FIRSTLIGHT_ADMIN_KEY for the dashboard and the admin API. firstlight key admin makes a key.',
    )
    return { admin: { secret: { env: 'FIRSTLIGHT_ADMIN_KEY' } } }
  }

  /** YAML with the notes as comments. */
  render(from: string): string {
    const document = { ...this.document, ...this.#admin(), clusters: [{ id: 'main', pools: this.pools }] }
    const comments = (Object.keys(HEADINGS) as NoteKind[]).flatMap((kind) => {
      const notes = this.notes.filter((note) => note.kind === kind)
      if (notes.length === 0) return []
      return ['', HEADINGS[kind], ...notes.flatMap(({ item, why }) => wrapped(`${item}: ${why}`))]
    })
    return [
      `# Converted from ${from} by firstlight convert. Validate it with firstlight check.`,
      dump(document, { lineWidth: 110, noRefs: true }).trimEnd(),
      ...comments.map((line) => (line === '' ? '' : `# ${line}`)),
    ].join('\n')
  }
}

const WIDTH = 110

function wrapped(note: string): string[] {
  const lines: string[] = []
  let line = '-'
  for (const word of note.replaceAll(/\s+/g, ' ').split(' ')) {
    if (line.length + word.length >= WIDTH) {
      lines.push(line)
      line = ' '
    }
    line += ` ${word}`
  }
  return [...lines, line]
}

/** Adds a scheme and removes a trailing `/` and `/v1`. */
export function baseUrlOf(url: string): string {
  const absolute = /^https?:\/\//.test(url) ? url : `http://${url}`
  return absolute.replace(/\/+$/, '').replace(/\/v1$/, '')
}

/** Removes keys without a value. */
export const compact = (value: Tree): Tree =>
  Object.fromEntries(
    Object.entries(value).filter(
      ([, one]) => one !== undefined && one !== null && !(Array.isArray(one) && !one.length),
    ),
  )
