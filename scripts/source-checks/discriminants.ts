/**
 * Comparisons with an engine type or a protocol outside the folder that describes them. Add a member to `EngineType` or
 * `Protocol` instead, so that a new type is a new file.
 */
import { lineAt, type SourceFile } from './source-files.ts'

const ENGINE_KINDS = String.raw`'(?:vllm|sglang|tensorrt-llm|llama\.cpp|tgi|ollama|firstlight|external|unknown)'`

interface Discriminant {
  readonly pattern: RegExp
  /** Folders that may compare it. The configuration has names of its own. */
  readonly allowed: RegExp
  readonly advice: string
}

const DISCRIMINANTS: readonly Discriminant[] = [
  {
    pattern: new RegExp(String.raw`(?:\b(?:kind|type)\s*[!=]==?\s*${ENGINE_KINDS}|\bcase ${ENGINE_KINDS}:)`, 'g'),
    allowed: /^src\/(engines|config)\//,
    advice: 'compares an engine type. Read a member of EngineType (src/engines/engine-type.ts), or add one.',
  },
  {
    pattern: /\bprotocol\w*(?:\(\w*\))?\??\.name\s*[!=]==?/gi,
    allowed: /^src\/protocols\//,
    advice: 'compares a protocol. Read a member of Protocol (src/protocols/protocol.ts), or add one.',
  },
]

export const comparedDiscriminants = (file: SourceFile): string[] =>
  !/^(src|durable)\//.test(file.path)
    ? []
    : DISCRIMINANTS.filter(({ allowed }) => !allowed.test(file.path)).flatMap(({ pattern, advice }) =>
        Array.from(file.text.matchAll(pattern), ({ index }) => `${file.path}:${lineAt(file, index)}: ${advice}`),
      )
