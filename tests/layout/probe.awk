# Turns a list of facts into a program, both C and C++, that prints what the headers it is compiled with make of every fact.
# C++ alone tells an enum from the integer that C takes for the same type.
#
# Lines of later.txt begin with the release that brought the name; those up to `release` are compiled, and the program prints
# those up to the release that is its argument.

BEGIN {
	print "#include <stddef.h>"
	print "#include <stdio.h>"
	print "#include <stdlib.h>"
	print ""
	print "static int release, since;"
	print "#define FACT(...) (void)(since > release || printf(__VA_ARGS__))"
	print "#define NUMBER(label, value) FACT(label \" %llu\\n\", (unsigned long long)(value))"
	print "#ifdef __cplusplus"
	print "#include <type_traits>"
	print "#define _Alignof(type) alignof(type)"
	print "#define TYPE(label, expression, type) \\"
	print "\tNUMBER(label \" type\", (std::is_same<decltype(expression), type>::value))"
	print "#else"
	print "#define TYPE(label, expression, type) \\"
	print "\tNUMBER(label \" type\", __builtin_types_compatible_p(__typeof__(expression), type))"
	print "#endif"
	print ""
}

/^#/ || NF == 0 { next }

{ since = 0 }

$1 ~ /^[0-9]+$/ {
	if ($1 + 0 > release + 0)
		next
	since = $1
	sub(/^[0-9]+ +/, "")
}

$1 == "include" { print "#include <" $2 ">"; next }

!begun { begun = 1; print "\nint main(int argc, char **argv)\n{\n\trelease = argc > 1 ? atoi(argv[1]) : 0;" }

since != printed { printf "\tsince = %d;\n", since; printed = since }

# The rest of the line from word n on.
function tail(n,    i, text) {
	text = $n
	for (i = n + 1; i <= NF; i++)
		text = text " " $i
	return text
}

function value(name) {
	printf "\tNUMBER(\"%s\", (__UINTPTR_TYPE__)(%s));\n", name, name
	printf "\tNUMBER(\"%s size\", sizeof(%s));\n", name, name
	printf "\tNUMBER(\"%s signed\", (__typeof__(%s))-1 < (__typeof__(%s))1);\n", name, name, name
}

$1 == "struct" || $1 == "union" {
	printf "\tNUMBER(\"%s size\", sizeof(%s));\n", $0, $0
	printf "\tNUMBER(\"%s align\", _Alignof(%s));\n", $0, $0
	next
}

$1 == "field" {
	owner = $2 " " $3
	member = "((" owner " *)0)->" $4
	# verbs_context grows at its start: what counts is how far a member stands before the end.
	if (owner == "struct verbs_context")
		printf "\tNUMBER(\"%s.%s before context\", offsetof(%s, context) - offsetof(%s, %s));\n", owner, $4, owner, owner, $4
	else
		printf "\tNUMBER(\"%s.%s offset\", offsetof(%s, %s));\n", owner, $4, owner, $4
	printf "\tNUMBER(\"%s.%s size\", sizeof(%s));\n", owner, $4, member
	if ($5 != "-")
		printf "\tTYPE(\"%s.%s\", %s, %s);\n", owner, $4, member, tail(5)
	next
}

$1 == "enum" {
	printf "\tNUMBER(\"%s size\", sizeof(%s));\n", $0, $0
	printf "\tNUMBER(\"%s signed\", (%s)-1 < (%s)1);\n", $0, $0, $0
	next
}

$1 == "enumerator" || $1 == "constant" { value($2); next }

$1 == "function" { printf "\tTYPE(\"%s\", %s, %s);\n", $2, $2, tail(3); next }

$1 == "type" { printf "\tNUMBER(\"%s size\", sizeof(%s));\n", $2, $2; next }

$1 == "text" { printf "\tFACT(\"%s %%s\\n\", %s);\n", $2, $2; next }

$1 == "macro" {
	printf "#ifdef %s\n\tNUMBER(\"macro %s\", 1);\n#else\n\tNUMBER(\"macro %s\", 0);\n#endif\n", $2, $2, $2
	next
}

{ print FILENAME ":" NR ": unknown fact " $1 > "/dev/stderr"; exit 1 }

END { print "\treturn 0;\n}" }
