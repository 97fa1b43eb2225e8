/** Types whose whole name is a participle: `Found` states how the author got the value, not what it is. */
import { Visitor } from 'vite'
import { lineAt, type SourceFile } from './source-files.ts'

const PARTICIPLES = new Set(
  (
    'Admitted Added Allowed Asked Begun Booked Cached Called Chosen Closed Counted Ended Finished Forwarded Found Given Heard ' +
    'Held Kept Known Left Logged Lost Made Measured Observed Opened Parsed Passed Placed Ranked Read Received Recorded ' +
    'Refused Rejected Requested Running Said Seen Sent Served Shown Started Stored Taken Told Tried Used Waiting Wanted Written'
  ).split(' '),
)

/** Problems of one file, as text for the developer. */
export function participleTypes(file: SourceFile): string[] {
  const problems: string[] = []
  const check = ({ id }: { readonly id: { readonly name: string; readonly start: number } | null }): void => {
    if (id !== null && PARTICIPLES.has(id.name))
      problems.push(`${file.path}:${lineAt(file, id.start)}: type "${id.name}" is a participle. Name what it is.`)
  }
  new Visitor({ TSInterfaceDeclaration: check, TSTypeAliasDeclaration: check, ClassDeclaration: check }).visit(
    file.parsed.program,
  )
  return problems
}
