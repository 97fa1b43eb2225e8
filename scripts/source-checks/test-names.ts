/**
 * Names of test files. `ledger.test.ts` tests `ledger.ts`; `ledger.property.test.ts` and `ledger.release.test.ts` test
 * one aspect of it. Instead of a source file, a test may be named after a shared suite in test/contracts, a file of test/kit or a page of
 * docs/tutorials.
 */
import { basename } from 'node:path'
import { isTest, listFiles, type SourceFile } from './source-files.ts'

const nameOf = (path: string): string => basename(path).split('.')[0]!

export function testNames(files: readonly SourceFile[]): string[] {
  const subjects = new Set([
    ...files.filter((file) => !isTest(file)).map(({ path }) => nameOf(path)),
    ...listFiles('test/{contracts,kit}/**/*.ts')
      .filter((path) => !path.endsWith('.test.ts'))
      .map(nameOf),
    ...listFiles('docs/tutorials/*.md').map(nameOf),
  ])
  return files
    .filter(({ path }) => path.endsWith('.test.ts') && !subjects.has(nameOf(path)))
    .map(
      ({ path }) =>
        `${path}: no source file, contract or tutorial has the name "${nameOf(path)}". Use SUBJECT.ASPECT.test.ts.`,
    )
}
