/**
 * Accessors in object literals on the request path. V8 makes a hidden class for each such object. It keeps the closure
 * of the accessor, with the whole request, until the next full garbage collection.
 */
import { Visitor } from 'vite'
import { lineAt, type SourceFile } from './source-files.ts'

const REQUEST_PATH = /^src\/(core|api|origin|protocols|engines)\//

/** Problems of one file, as text for the developer. */
export function literalAccessors(file: SourceFile): string[] {
  if (!REQUEST_PATH.test(file.path)) return []
  const problems: string[] = []
  new Visitor({
    ObjectExpression({ properties }) {
      for (const property of properties)
        if (property.type === 'Property' && property.kind !== 'init')
          problems.push(`${file.path}:${lineAt(file, property.start)}: accessor in an object literal. Write a class.`)
    },
  }).visit(file.parsed.program)
  return problems
}
