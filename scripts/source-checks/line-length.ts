/** Lines of the product that oxfmt does not break, because they are strings or comments. */
import { isProduct, type SourceFile } from './source-files.ts'

const MAX_CHARACTERS = 120

/** Regular expressions cannot be broken. */
export const longLines = (file: SourceFile): string[] =>
  !isProduct(file)
    ? []
    : file.text
        .split('\n')
        .flatMap((line, at) =>
          line.length > MAX_CHARACTERS && !/^\s*\/[^/*]/.test(line)
            ? [`${file.path}:${at + 1}: has ${line.length} characters. Use at most ${MAX_CHARACTERS}.`]
            : [],
        )
