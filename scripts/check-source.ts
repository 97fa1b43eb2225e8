/** Checks of the source text that the linter does not have. `npm run lint` runs it. */
import { commentPlaces } from './source-checks/comment-places.ts'
import { comparedDiscriminants } from './source-checks/discriminants.ts'
import { longLines } from './source-checks/line-length.ts'
import { literalAccessors } from './source-checks/literal-accessors.ts'
import { participleTypes } from './source-checks/participle-types.ts'
import { plainTexts } from './source-checks/plain-texts.ts'
import { retiredWords } from './source-checks/retired-words.ts'
import { sourceFiles } from './source-checks/source-files.ts'
import { testNames } from './source-checks/test-names.ts'
import { testTitles } from './source-checks/test-titles.ts'
import { staleJudgements, unconnectedDefinitions } from './source-checks/unconnected-definitions.ts'
import { unusedExports } from './source-checks/unused-exports.ts'

const files = sourceFiles()
const problems = [
  ...files.flatMap((file) => [
    ...longLines(file),
    ...commentPlaces(file),
    ...participleTypes(file),
    ...retiredWords(file),
    ...plainTexts(file),
    ...testTitles(file),
    ...comparedDiscriminants(file),
    ...literalAccessors(file),
  ]),
  ...unusedExports(files),
  ...testNames(files),
  ...staleJudgements(files),
]

const toJudge = unconnectedDefinitions(files)
if (toJudge.length > 0) {
  console.log('Files that may hold more than one concept (scripts/source-checks/one-concept.json names judged ones):')
  for (const line of toJudge) console.log(`  ${line}`)
}

for (const problem of problems) console.error(problem)
if (problems.length > 0) {
  console.error(`${problems.length} problems. The glossary is in AGENTS.md.`)
  process.exitCode = 1
}
