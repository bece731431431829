/* JSON text, read from front to back: what the plain shape of an append is made of.
 *
 * Every `pass_` function answers 1 where what it names stands here, and has then gone behind it; 0
 * where it does not, and where the text stands then is of no use.
 */
#ifndef SVC_CLUSTER_NATIVE_JSON_TEXT_H
#define SVC_CLUSTER_NATIVE_JSON_TEXT_H

#include "core.h"

typedef struct {
    const byte *at, *end;
} Text;

/* What stands between two quotes. */
typedef struct {
    const byte *from;
    size_t size, decoded_size;
    int is_escaped, is_given;
} String;

typedef struct {
    uint64_t value;
    int is_given;
} Number;

static inline int hex4(const byte *at, uint32_t *value)
{
    int place;
    *value = 0;
    for (place = 0; place < 4; place++) {
        byte digit = at[place];
        if (digit >= '0' && digit <= '9')
            digit = (byte)(digit - '0');
        else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f')
            digit = (byte)((digit | 0x20) - 'a' + 10);
        else
            return 0;
        *value = *value << 4 | digit;
    }
    return 1;
}

/* The size of the escape that begins with the backslash at `at`; 0: it is none, or half a pair. */
static inline size_t escape_size(const byte *at, size_t left, uint32_t *character)
{
    uint32_t low;
    if (left < 2)
        return 0;
    *character = at[1];
    switch (at[1]) {
    case 'b': *character = '\b'; return 2;
    case 'f': *character = '\f'; return 2;
    case 'n': *character = '\n'; return 2;
    case 'r': *character = '\r'; return 2;
    case 't': *character = '\t'; return 2;
    case '"': case '\\': case '/': return 2;
    case 'u': break;
    default: return 0;
    }
    if (left < 6 || !hex4(at + 2, character))
        return 0;
    if (*character < 0xD800 || *character > 0xDFFF)
        return 6;
    if (*character > 0xDBFF || left < 12 || at[6] != '\\' || at[7] != 'u' || !hex4(at + 8, &low) ||
        low < 0xDC00 || low > 0xDFFF)
        return 0;
    *character = 0x10000 + ((*character - 0xD800) << 10) + (low - 0xDC00);
    return 12;
}

static inline size_t utf8_size(uint32_t character)
{
    return character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
}

static inline byte *write_utf8(byte *to, uint32_t character)
{
    size_t size = utf8_size(character), place;
    if (size == 1) {
        *to = (byte)character;
        return to + 1;
    }
    for (place = size - 1; place > 0; place--) {
        to[place] = (byte)(0x80 | (character & 0x3F));
        character >>= 6;
    }
    to[0] = (byte)(0xF00 >> size | character);
    return to + size;
}

static inline void pass_blanks(Text *text)
{
    while (text->at < text->end &&
           (*text->at == ' ' || *text->at == '\n' || *text->at == '\r' || *text->at == '\t'))
        text->at++;
}

/* Pass over blanks and this byte. */
static inline int pass(Text *text, byte wanted)
{
    pass_blanks(text);
    if (text->at == text->end || *text->at != wanted)
        return 0;
    text->at++;
    return 1;
}

static inline int pass_null(Text *text)
{
    pass_blanks(text);
    if (text->end - text->at < 4 || memcmp(text->at, "null", 4) != 0)
        return 0;
    text->at += 4;
    return 1;
}

/* Behind an item: 1 where there is another, 0 behind the last, -1 for what is neither. */
static inline int pass_comma(Text *text, byte end)
{
    if (pass(text, ','))
        return 1;
    return pass(text, end) ? 0 : -1;
}

static inline int pass_string(Text *text, String *string)
{
    const byte *at;
    if (!pass(text, '"'))
        return 0;
    at = text->at;
    memset(string, 0, sizeof *string);
    string->from = at;
    string->is_given = 1;
    for (;;) {
        size_t left, size;
        uint32_t character;
        while (text->end - at >= 8 && !is_odd(word_at(at)))
            at += 8;
        if (at == text->end || *at < 0x20)
            return 0;
        if (*at == '"')
            break;
        left = (size_t)(text->end - at);
        if (*at == '\\') {
            size = escape_size(at, left, &character);
            if (size == 0)
                return 0;
            string->is_escaped = 1;
            string->decoded_size -= size - utf8_size(character);
        } else {
            size = character_size(at, left);
            if (size == 0)
                return 0;
        }
        at += size;
    }
    string->size = (size_t)(at - string->from);
    string->decoded_size += string->size;
    text->at = at + 1;
    return 1;
}

static inline int pass_number(Text *text, Number *number)
{
    const byte *begin;
    uint64_t value = 0;
    pass_blanks(text);
    begin = text->at;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
        uint64_t digit = (uint64_t)(*text->at - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    if (text->at == begin || (*begin == '0' && text->at - begin > 1))
        return 0;
    number->value = value;
    number->is_given = 1;
    return 1;
}

/* Find out how long the bytes are that the string stands for. */
static inline int measure(int is_base64, String *string)
{
    if (!is_base64)
        return 1;
    if (string->is_escaped || string->size % 4 != 0)
        return 0;
    string->decoded_size = string->size / 4 * 3;
    if (string->size && string->from[string->size - 1] == '=')
        string->decoded_size -= string->from[string->size - 2] == '=' ? 2 : 1;
    return 1;
}

static inline int write_base64(byte *to, const String *string)
{
    const byte *from = string->from, *last;
    size_t rest = string->decoded_size % 3;
    uint32_t word;
    last = from + string->decoded_size / 3 * 4;
    for (; from < last; from += 4, to += 3) {
        byte a = BASE64_VALUES[from[0]], b = BASE64_VALUES[from[1]];
        byte c = BASE64_VALUES[from[2]], d = BASE64_VALUES[from[3]];
        if ((a | b | c | d) & 0x80)
            return 0;
        word = (uint32_t)a << 18 | (uint32_t)b << 12 | (uint32_t)c << 6 | d;
        to[0] = (byte)(word >> 16);
        to[1] = (byte)(word >> 8);
        to[2] = (byte)word;
    }
    if (rest) {
        byte a = BASE64_VALUES[from[0]], b = BASE64_VALUES[from[1]];
        byte c = rest == 2 ? BASE64_VALUES[from[2]] : 0;
        /* bits that mean nothing are zero: there is one spelling */
        if ((a | b | c) & 0x80 || (rest == 1 ? b & 0x0F : c & 0x03))
            return 0;
        word = (uint32_t)a << 18 | (uint32_t)b << 12 | (uint32_t)c << 6;
        to[0] = (byte)(word >> 16);
        if (rest == 2)
            to[1] = (byte)(word >> 8);
    }
    return 1;
}

/* Write the `decoded_size` bytes of a string that was measured. */
static inline int write_string(int is_base64, byte *to, const String *string)
{
    const byte *from = string->from, *end = from + string->size;
    if (is_base64)
        return write_base64(to, string);
    if (!string->is_escaped) {
        if (string->size)
            memcpy(to, from, string->size);
        return 1;
    }
    while (from < end) {
        uint32_t character = 0;
        if (*from != '\\')
            *to++ = *from++;
        else {
            from += escape_size(from, (size_t)(end - from), &character);
            to = write_utf8(to, character);
        }
    }
    return 1;
}

#endif
